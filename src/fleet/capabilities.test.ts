import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PointsmanError } from '../plugin/index.ts';
import { parseCapabilities } from './capabilities.ts';

/** The advertisement of docs/simulated-engine.md. */
const document = {
  protocol_versions: ['0.1'],
  epoch: '9f2c61d0',
  model: 'tiny-sim',
  worker_type: 'aggregated',
  block_size: 16,
  total_kv_blocks: 16384,
  max_num_batched_tokens: 8192,
  adapters: ['law'],
  hash_scheme: 'sim-xxh3/seed=0',
  reports_outcomes: true,
  ranks: {
    '0': {
      router_hint: true,
      actions: ['kv.fetch@1.0', 'kv.retain@1.0'],
      source_control_endpoint: 'tcp://127.0.0.1:9003',
      kv_events: 'tcp://127.0.0.1:9001',
      kv_events_replay: 'tcp://127.0.0.1:9002',
    },
  },
};

const messageOf = (json: unknown): string => {
  try {
    parseCapabilities(json);
  } catch (error) {
    return error instanceof PointsmanError ? `${error.code} ${error.message}` : `not ours: ${error}`;
  }
  return 'accepted';
};

describe('the capability advertisement', () => {
  it('is read in full', () => {
    expect(parseCapabilities(document)).toEqual({
      epoch: '9f2c61d0',
      model: 'tiny-sim',
      handoff: null,
      workerType: 'aggregated',
      blockSize: 16,
      hashScheme: 'sim-xxh3/seed=0',
      reportsOutcomes: true,
      totalKvBlocks: 16384,
      maxNumBatchedTokens: 8192,
      adapters: ['law'],
      ranks: new Map([
        [
          0,
          {
            routerHint: true,
            actions: new Set(['kv.fetch@1.0', 'kv.retain@1.0']),
            sourceControlEndpoint: 'tcp://127.0.0.1:9003',
            kvEvents: {
              address: 'tcp://127.0.0.1:9001',
              binds: false,
              replay: 'tcp://127.0.0.1:9002',
              topic: '',
            },
          },
        ],
      ]),
    });
  });

  it('tells a rank without an action set from one with an empty set', () => {
    const read = parseCapabilities({
      ...document,
      ranks: { '0': { router_hint: true }, '1': { router_hint: true, actions: [] } },
    });
    expect([read.ranks.get(0)?.actions, read.ranks.get(1)?.actions]).toEqual([null, new Set()]);
  });

  it('takes integers of a configuration file, and members it does not know', () => {
    const read = parseCapabilities({ ...document, block_size: 32n, later_addition: { of: 'anything' } });
    expect(read.blockSize).toBe(32);
  });

  it.each([
    [
      'no object',
      7,
      'PM_CAPABILITIES_INVALID the capability advertisement cannot be used: the document: Invalid input: expected object, received number',
    ],
    [
      'a block size of 0',
      { ...document, block_size: 0 },
      'PM_CAPABILITIES_INVALID the capability advertisement cannot be used: block_size: Too small: expected number to be >=1',
    ],
    [
      'a fractional block size',
      { ...document, block_size: 1.5 },
      'PM_CAPABILITIES_INVALID the capability advertisement cannot be used: block_size: Invalid input: expected int, received number',
    ],
    [
      'another protocol',
      { ...document, protocol_versions: ['0.2'] },
      'PM_CAPABILITIES_INVALID the capability advertisement cannot be used: protocol_versions: has [0.2], but this router speaks 0.1',
    ],
    [
      'an action without version',
      { ...document, ranks: { '0': { router_hint: true, actions: ['kv.fetch'] } } },
      'PM_CAPABILITIES_INVALID the capability advertisement cannot be used: ranks.0.actions.0: must look like kv.fetch@1.0',
    ],
    [
      'a rank that is no number',
      { ...document, ranks: { one: { router_hint: true } } },
      'PM_CAPABILITIES_INVALID the capability advertisement cannot be used: ranks.one: Invalid key in record',
    ],
  ])('is refused with %s', (_, json, message) => {
    expect(messageOf(json)).toBe(message);
  });

  it('is never read half, whatever it contains', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.jsonValue(),
          fc.record({
            ...Object.fromEntries(
              Object.entries(document).map(([name, value]) => [
                name,
                fc.oneof(fc.constant<unknown>(value), fc.jsonValue()),
              ]),
            ),
          }),
        ),
        (json) => {
          const message = messageOf(json);
          expect(message === 'accepted' || message.startsWith('PM_CAPABILITIES_INVALID ')).toBe(true);
        },
      ),
    );
  });
});
