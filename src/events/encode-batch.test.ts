import { decode, encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TIERS } from '../kv/index.ts';
import { BATCHES } from './codec.fixtures.ts';
import { decodeEventBatch } from './decode-batch.ts';
import { encodeEventBatch } from './encode-batch.ts';
import type { KvEvent, KvEventBatch, KvEventScope } from './types.ts';

const u32 = fc.integer({ min: 0, max: 0xffffffff });
const pairs = fc.uint32Array({ maxLength: 20 }).map((array) => array.subarray(0, array.length & ~1));
const text = fc.string({ unit: 'grapheme', maxLength: 40 });
const maybe = fc.option(text, { nil: null });
const tier = fc.constantFrom(...TIERS);
const scope: fc.Arbitrary<KvEventScope | undefined> = fc
  .record({
    groupIndex: fc.option(u32, { nil: null }),
    attentionKind: maybe,
    locality: maybe,
    unsupported: fc.constant(null),
  })
  .map((it) =>
    it.groupIndex === null && it.attentionKind === null && it.locality === null ? undefined : it,
  );
const withScope = <T extends object>(event: T, facts: KvEventScope | undefined): T =>
  facts === undefined ? event : { ...event, scope: facts };

const stored = fc
  .record({
    kind: fc.constant('stored' as const),
    external: pairs,
    parent: fc.option(fc.record({ lo: u32, hi: u32 }), { nil: null }),
    tokenIds: fc.uint32Array({ maxLength: 80 }),
    blockSize: fc.integer({ min: 1, max: 4096 }),
    tier,
    loraName: maybe,
    cacheSalt: maybe,
    sessionId: maybe,
  })
  .chain((event) => scope.map((facts) => withScope(event, facts)));
const removed = fc
  .record({ kind: fc.constant('removed' as const), external: pairs, tier })
  .chain((event) => scope.map((facts) => withScope(event, facts)));
const outcome = fc.record({
  kind: fc.constant('hint-outcome' as const),
  messageId: text,
  actionId: text,
  outcome: fc.constantFrom(...(['accepted', 'clipped', 'deferred', 'rejected', 'missing'] as const)),
  reason: maybe,
  blocks: fc.option(u32, { nil: null }),
});
const event: fc.Arbitrary<KvEvent> = fc.oneof(
  stored,
  removed,
  outcome,
  fc.constant({ kind: 'cleared' as const }),
);
const batches: fc.Arbitrary<KvEventBatch> = fc.record({
  timestamp: fc.double({ noNaN: true }),
  events: fc.array(event, { maxLength: 20 }),
  rank: fc.option(u32, { nil: null }),
});

const u64 = (lo: number, hi: number): bigint => (BigInt(hi) << 32n) | BigInt(lo);
const big = (value: unknown): unknown => (typeof value === 'bigint' ? value : BigInt(value as number));
const hashesOf = (array: Uint32Array): bigint[] =>
  Array.from({ length: array.length / 2 }, (_, i) => u64(array[2 * i]!, array[2 * i + 1]!));

/** The batch in another encoding of the field, through the library. */
function encodeOtherwise(batch: KvEventBatch, mapBatch: boolean): Uint8Array {
  const encodeEvent = (it: KvEvent): unknown => {
    switch (it.kind) {
      case 'stored':
        return [
          'BlockStored',
          hashesOf(it.external).map((hash) => BigInt.asIntN(64, hash)),
          it.parent === null ? null : u64(it.parent.lo, it.parent.hi),
          Array.from(it.tokenIds),
          it.blockSize,
          null,
          { device: 'DEVICE', host: 'CPU_PINNED', disk: 'NVME', external: 'SHARED' }[it.tier],
          it.loraName,
          null,
        ];
      case 'removed':
        return {
          block_hashes: hashesOf(it.external),
          type: 'BlockRemoved',
          medium: it.tier === 'device' ? null : 'DISK',
        };
      case 'cleared':
        return ['AllBlocksCleared'];
      case 'hint-outcome':
        return ['KvHintOutcome', it.messageId, it.actionId, it.outcome, it.reason, it.blocks];
    }
  };
  const events = batch.events.map(encodeEvent);
  const body = mapBatch
    ? { dp_rank: batch.rank, events, ts: batch.timestamp }
    : [batch.timestamp, events, batch.rank];
  return encode(body, { useBigInt64: true });
}

describe('encodeEventBatch', () => {
  it('writes the very bytes of current vLLM', () => {
    for (const name of ['mapStore', 'mapRemoval', 'mapClear'] as const) {
      const { bytes } = BATCHES[name];
      expect(encodeEventBatch(decodeEventBatch(bytes))).toEqual(bytes);
    }
  });

  it('is undone by decodeEventBatch', () => {
    fc.assert(
      fc.property(batches, (batch) => {
        expect(decodeEventBatch(encodeEventBatch(batch))).toEqual(batch);
      }),
      { numRuns: 500 },
    );
  });

  it('writes what a general decoder reads as the same values', () => {
    fc.assert(
      fc.property(batches, (batch) => {
        const [timestamp, events, rank] = decode(encodeEventBatch(batch), { useBigInt64: true }) as [
          number,
          Record<'block_hashes' | 'token_ids' | 'block_size' | 'session_id' | 'parent_block_hash', unknown>[],
          number | null,
        ];
        expect(timestamp).toBe(batch.timestamp);
        expect(rank).toBe(batch.rank);
        expect(events).toHaveLength(batch.events.length);
        batch.events.forEach((it, i) => {
          const read = events[i]!;
          if (it.kind === 'stored' || it.kind === 'removed') {
            expect((read.block_hashes as unknown[]).map(big)).toEqual(hashesOf(it.external));
          }
          if (it.kind === 'stored') {
            expect(read.token_ids).toEqual(Array.from(it.tokenIds));
            expect(read.block_size).toBe(it.blockSize);
            expect(read.session_id ?? null).toBe(it.sessionId);
            expect(read.parent_block_hash === null ? null : big(read.parent_block_hash)).toBe(
              it.parent === null ? null : u64(it.parent.lo, it.parent.hi),
            );
          }
        });
      }),
      { numRuns: 300 },
    );
  });

  it('agrees with the other encodings, written by a general encoder', () => {
    fc.assert(
      fc.property(batches, fc.boolean(), (batch, mapBatch) => {
        const decoded = decodeEventBatch(encodeOtherwise(batch, mapBatch));
        // The library writes -0 as the integer 0.
        expect(decoded.timestamp).toBe(batch.timestamp + 0);
        expect(decoded.rank).toBe(batch.rank);
        const expected = batch.events.map((it): KvEvent => {
          if (it.kind === 'stored') {
            const { scope: _, ...rest } = it;
            return { ...rest, cacheSalt: null, sessionId: null };
          }
          if (it.kind === 'removed') {
            return { kind: 'removed', external: it.external, tier: it.tier === 'device' ? 'device' : 'disk' };
          }
          return it;
        });
        expect(decoded.events).toEqual(expected);
      }),
      { numRuns: 300 },
    );
  });

  it('refuses a store whose identity it cannot write', () => {
    const [store] = decodeEventBatch(BATCHES.mapStore.bytes).events;
    const facts = {
      groupIndex: null,
      attentionKind: null,
      locality: null,
      unsupported: 'extra_keys',
    } as const;
    if (store?.kind !== 'stored') throw new Error('the fixture is a store');
    expect(() =>
      encodeEventBatch({ timestamp: 0, rank: null, events: [{ ...store, scope: facts }] }),
    ).toThrow('a BlockStored event with extra_keys cannot be encoded; leave out scope.unsupported');
  });
});
