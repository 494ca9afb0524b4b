// Bytes that no engine should send: every cut of every message, changed bytes, hostile sizes. Nothing may throw out of the applier,
// and work stays in proportion to the bytes.
import { encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PointsmanError } from '../plugin/index.ts';
import { bench, stored } from './applier.fixtures.ts';
import { BATCHES, fromHex } from './codec.fixtures.ts';
import { decodeEventBatch } from './decode-batch.ts';
import { encodeEventBatch } from './encode-batch.ts';
import { PageTable } from './page-table.ts';
import type { KvEvent } from './types.ts';

const DIGEST = '0123456789abcdef'.repeat(4);

/** Messages beyond the plain ones: whatever a field may hold. */
const RICH: Record<string, Uint8Array> = {
  pairs: encodeEventBatch({
    timestamp: 1,
    rank: 0,
    events: [stored([1, 2], [1, 2, 3, 4, 70_000], { bigrams: true, cacheSalt: 's', sessionId: 'x' })],
  }),
  items: encodeEventBatch({
    timestamp: 1,
    rank: null,
    events: [stored([1, 2], [1, 2, 3, 4], { multimodal: [Uint32Array.of(1, 2, 3, 4), null], loraName: 'a' })],
  }),
  clearOfTier: encodeEventBatch({ timestamp: 1, rank: null, events: [{ kind: 'cleared', tier: 'host' }] }),
  extraKeys: encode([
    1,
    [
      {
        type: 'BlockStored',
        block_hashes: [1, 2],
        token_ids: [1, 2, 3, 4],
        block_size: 2,
        lora_name: 'a',
        extra_keys: [
          ['a', [DIGEST, -1], ['id', 3], 'dynamo-cache-salt:t', new Uint8Array(32)],
          ['a', DIGEST],
        ],
        locality: 'LOCAL',
        ownership: 'o',
      },
    ],
    0,
  ]),
  allSlots: encode([
    1,
    [
      [
        'BlockStored',
        [1],
        null,
        [
          [1, 2],
          [2, 3],
        ],
        2,
        5,
        'CPU',
        { cache_salt: 's' },
        [null],
        [null],
        0,
        'full_attention',
        9,
      ],
    ],
    0,
  ]),
  digestStore: fromHex(
    `93 cb 41d954fc40200000 91 95 ab 426c6f636b53746f726564 91 c420 ${'11'.repeat(32)} c0 92 01 02 02 00`,
  ),
};

const MESSAGES = [...Object.values(BATCHES).map(({ bytes }) => bytes), ...Object.values(RICH)];

/** Sends bytes as an engine would; whatever is wrong with them must be counted, and nothing thrown. */
function survives(...payloads: Uint8Array[]): void {
  const { applier, send, depth, index } = bench({
    blockSizeOf: () => 2,
    tokenPairs: { of: () => false, learn() {} },
  });
  for (const [at, payload] of payloads.entries()) applier.onBatch(1, at, payload);
  expect(applier.feed(1)?.batches).toBe(payloads.length);
  // The stream goes on.
  send(2, stored([10, 11], [1, 2, 3, 4]));
  expect(depth(2, [1, 2, 3, 4])).toBe(2);
  expect(index.stats().blocks).toBeLessThan(100);
}

describe('any bytes', () => {
  it('decode where they are whole', () => {
    for (const bytes of MESSAGES) expect(decodeEventBatch(bytes).events.length).toBe(1);
  });

  it('are refused at every cut of every message, with the place', () => {
    for (const bytes of MESSAGES) {
      for (let length = 0; length < bytes.length; length += 1) {
        let thrown: unknown = null;
        try {
          decodeEventBatch(bytes.subarray(0, length));
        } catch (error) {
          thrown = error;
        }
        expect(thrown).toBeInstanceOf(PointsmanError);
        expect(thrown).toMatchObject({ code: 'PM_EVENT_DECODE' });
      }
    }
  });

  it('change nothing that is told apart when two are cut together', () => {
    for (const bytes of MESSAGES) survives(bytes.subarray(0, bytes.length >> 1), bytes);
  });

  it('never throw when bytes of messages change, or are moved', () => {
    const mutated = fc
      .tuple(
        fc.constantFrom(...MESSAGES),
        fc.array(fc.tuple(fc.nat(400), fc.nat(255)), { minLength: 1, maxLength: 6 }),
        fc.nat(400),
        fc.uint8Array({ maxLength: 12 }),
      )
      .map(([bytes, changes, at, inserted]) => {
        const copy = Uint8Array.from(bytes);
        for (const [place, value] of changes) copy[place % copy.length] = value;
        const cut = at % copy.length;
        return Uint8Array.from([...copy.subarray(0, cut), ...inserted, ...copy.subarray(cut)]);
      });
    fc.assert(
      fc.property(fc.array(mutated, { minLength: 1, maxLength: 4 }), (payloads) => survives(...payloads)),
      { numRuns: 1500 },
    );
  });

  it('never throw for well-formed events of any content', () => {
    const hash = fc.integer({ min: 1, max: 6 });
    const value = fc.oneof(
      fc.integer(),
      fc.string({ maxLength: 5 }),
      fc.constant(null),
      fc.array(fc.oneof(fc.nat(9), fc.constant(null), fc.tuple(fc.nat(9), fc.nat(9))), { maxLength: 4 }),
      fc.double(),
    );
    const event = fc.record(
      {
        type: fc.constantFrom('BlockStored', 'BlockRemoved', 'AllBlocksCleared', 'Other'),
        block_hashes: fc.array(hash, { maxLength: 5 }),
        parent_block_hash: fc.option(hash),
        token_ids: fc.array(fc.nat(3), { maxLength: 10 }),
        block_size: fc.constantFrom(1, 2, 3),
        medium: fc.constantFrom('GPU', 'CPU', 'WHAT', null),
        cache_salt: fc.constantFrom('a', 'b', null),
        extra_keys: value,
        group_idx: fc.option(fc.nat(2)),
        lora_name: value,
        block_mm_infos: value,
      },
      { requiredKeys: ['type', 'block_hashes', 'token_ids', 'block_size'] },
    );
    fc.assert(
      fc.property(fc.array(fc.array(event, { maxLength: 4 }), { minLength: 1, maxLength: 12 }), (batches) => {
        const { applier, gauge } = bench({
          blockSizeOf: () => 2,
          eventLimits: { orphanBlocks: 8, pages: 6, markedHashes: 4 },
        });
        for (const [at, events] of batches.entries()) applier.onBatch(1, at, encode([0, events]));
        expect(applier.feed(1)?.batches).toBe(batches.length);
        expect(applier.feed(1)?.rejected.failed).toBeUndefined();
        expect(gauge('pointsman_kv_orphan_blocks')).toBeLessThanOrEqual(8);
        expect(gauge('pointsman_kv_pages')).toBeLessThanOrEqual(6);
        applier.forget(1);
        expect(gauge('pointsman_kv_orphan_blocks') + gauge('pointsman_kv_pages')).toBe(0);
      }),
      { numRuns: 1500 },
    );
  });
});

describe('hostile sizes', () => {
  it('of claims beyond the bytes cost nothing', () => {
    const claim = (...bytes: number[]): Uint8Array => Uint8Array.of(0x92, 0x01, 0x91, ...bytes);
    survives(
      claim(0xdd, 0xff, 0xff, 0xff, 0xff),
      claim(0xdf, 0xff, 0xff, 0xff, 0xff),
      claim(0x92, 0xab, ...Buffer.from('BlockStored'), 0xdd, 0xff, 0xff, 0xff, 0xff),
      claim(0x92, 0xab, ...Buffer.from('BlockStored'), 0xdb, 0xff, 0xff, 0xff, 0xff),
    );
  });

  it('of the largest block leave the index alone', () => {
    const { applier, index } = bench();
    const event = (size: number): unknown => [['BlockStored', [1], null, [1, 2], size]];
    for (const [at, size] of [2 ** 20, 2 ** 20 + 1, 2 ** 32, 2 ** 53].entries()) {
      applier.onBatch(1, at, encode([0, event(size)]));
    }
    expect(applier.feed(1)?.rejected).toEqual({ token_count: 1, undecodable: 3 });
    expect(index.stats().blocks).toBe(0);
  });

  it('of a flood of orphans, then their parent, take a bounded number of look-ups', () => {
    const { send, index, applier } = bench({ eventLimits: { orphanBlocks: 2000 } });
    const events: KvEvent[] = [];
    for (let at = 4000; at > 0; at -= 1) events.push(stored([1000 + at], [at, at], { after: 999 + at }));
    send(1, ...events);
    expect(applier.orphanBlocks(1)).toBe(2000);
    const before = index.stats().probes;
    send(1, stored([1000], [0, 0]));
    expect(applier.orphanBlocks(1)).toBe(0);
    expect(index.stats()).toMatchObject({ blocks: 2001 });
    expect(index.stats().probes - before).toBeLessThan(40 * 2000);
  });

  it('of a page with very many pages behind it: one that goes costs no walk over the others', () => {
    const budget = { pages: 0, maxPages: 10 ** 6 };
    const table = new PageTable(1, 2, false, 10 ** 6, budget);
    const sink = { complete() {}, broken() {} };
    const hash = (lo: number) => ({ lo, hi: 9 });
    const many = 20_000;
    const store = (page: number, after: number | null): void => {
      const parent = after === null ? null : hash(after);
      table.store('device', parent, hash(page), Uint32Array.of(page), 0, null, sink);
    };
    store(1, null);
    store(2, 1);
    for (let at = 0; at < many; at += 1) {
      store(10 + 2 * at, 2);
      store(11 + 2 * at, 10 + 2 * at);
    }
    expect(table.size).toBe(2 + 2 * many);
    expect(table.steps).toBeLessThan(5 * many);
    for (let at = 0; at < many; at += 1) {
      table.remove('device', 11 + 2 * at, 9, sink);
      table.remove('device', 10 + 2 * at, 9, sink);
    }
    expect(table.size).toBe(2);
    expect(table.steps).toBeLessThan(10 * many);
  });
});
