import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PointsmanError } from '../plugin/index.ts';
import { parseAdvertisement } from './capabilities.ts';
import { readHintOutcomes } from './sim/hint-outcomes.ts';

const ADVERTISEMENT = {
  protocol_versions: ['0.1'],
  epoch: '9f2c61d0',
  model: 'tiny-sim',
  worker_type: 'aggregated',
  block_size: 16,
  total_kv_blocks: 16384,
  max_num_batched_tokens: 8192,
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

describe('parseAdvertisement', () => {
  it('reads the documented example', () => {
    expect(parseAdvertisement(ADVERTISEMENT)).toEqual({
      capabilities: {
        epoch: '9f2c61d0',
        model: 'tiny-sim',
        workerType: 'aggregated',
        blockSize: 16,
        hashScheme: 'sim-xxh3/seed=0',
        reportsOutcomes: true,
        ranks: new Map([
          [
            0,
            {
              routerHint: true,
              actions: new Set(['kv.fetch@1.0', 'kv.retain@1.0']),
              sourceControlEndpoint: 'tcp://127.0.0.1:9003',
            },
          ],
        ]),
      },
      kvEvents: new Map([
        [0, { connect: 'tcp://127.0.0.1:9001', replay: 'tcp://127.0.0.1:9002', topic: '' }],
      ]),
      totalKvBlocks: 16384,
      maxNumBatchedTokens: 8192,
    });
  });

  it('tells an unsaid action set from an empty one', () => {
    const actions = (rank: object) =>
      parseAdvertisement({ ...ADVERTISEMENT, ranks: { '0': rank } }).capabilities.ranks.get(0)?.actions;
    expect(actions({ router_hint: true })).toBeNull();
    expect(actions({ router_hint: true, actions: [] })).toEqual(new Set());
  });

  it.each([
    [null, 'KV hint capabilities: the advertisement must be an object'],
    [
      { ...ADVERTISEMENT, protocol_versions: ['0.2'] },
      'KV hint capabilities: protocol_versions must be a list with "0.1"',
    ],
    [{ ...ADVERTISEMENT, block_size: 0 }, 'KV hint capabilities: block_size must be a positive integer'],
    [{ ...ADVERTISEMENT, epoch: 3 }, 'KV hint capabilities: epoch must be a text of 1 to 512 characters'],
    [
      { ...ADVERTISEMENT, ranks: { '01': {} } },
      'KV hint capabilities: ranks["01"] must be named by a rank number',
    ],
    [
      { ...ADVERTISEMENT, ranks: { '0': { actions: 'all' } } },
      'KV hint capabilities: ranks["0"].actions must be a list of at most 256 texts such as "kv.fetch@1.0"',
    ],
    [
      { ...ADVERTISEMENT, total_kv_blocks: -1 },
      'KV hint capabilities: total_kv_blocks must be a positive integer',
    ],
  ])('names the first member that is wrong (%#)', (value, message) => {
    expect(() => parseAdvertisement(value)).toThrow(message);
  });

  it('answers any JSON with an advertisement or a coded error', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        try {
          parseAdvertisement(value);
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(PointsmanError);
        }
      }),
    );
  });
});

describe('readHintOutcomes', () => {
  it('reads the documented example', () => {
    const header =
      '{"message_id":"m","outcomes":[{"action_id":"a1","outcome":"accepted","blocks_asked":96,"blocks_done":88,"bytes":11534336,"ms":12.4},' +
      '{"action_id":"a2","outcome":"rejected","reason":"unsupported"},{"action_id":"a3","outcome":"unreported"}]}';
    expect(readHintOutcomes(header)).toEqual([
      { actionId: 'a1', outcome: 'accepted', reason: null, blocksAsked: 96, blocksDone: 88, bytes: 11534336 },
      {
        actionId: 'a2',
        outcome: 'rejected',
        reason: 'unsupported',
        blocksAsked: null,
        blocksDone: null,
        bytes: null,
      },
    ]);
  });

  it('takes whatever it cannot read as nothing reported', () => {
    expect(readHintOutcomes(undefined)).toEqual([]);
    expect(readHintOutcomes('{"message_id":"m","counts":{"accepted":40}}')).toEqual([]);
    expect(readHintOutcomes(' '.repeat(9000))).toEqual([]);
    fc.assert(fc.property(fc.oneof(fc.string(), fc.json()), (text) => void readHintOutcomes(text)));
  });
});
