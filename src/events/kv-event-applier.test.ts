import { encode } from '@msgpack/msgpack';
import { describe, expect, it } from 'vitest';
import { blockHashSeed, createPrefixIndex, type OwnerSlot, TIERS, u64FromBigInt } from '../kv/index.ts';
import type { MetricLabels, MetricName } from '../observe/index.ts';
import { ManualClock } from '../plugin/index.ts';
import { hasher, hashes, stored } from './applier.fixtures.ts';
import { encodeEventBatch } from './encode-batch.ts';
import { createKvEventApplier, type KvEventApplierOptions } from './kv-event-applier.ts';
import type { KvEvent, KvHintOutcomeEvent, KvReplayListener } from './types.ts';

function setUp(options: Partial<KvEventApplierOptions> = {}) {
  const clock = new ManualClock(1000);
  const index = createPrefixIndex({ hasher });
  const sizes = new Map<OwnerSlot, number>();
  const outcomes: [OwnerSlot, KvHintOutcomeEvent][] = [];
  const restarts: OwnerSlot[] = [];
  const counts = new Map<string, number>();
  const count = (name: MetricName, labels?: MetricLabels, by = 1): void => {
    const key = [name, ...Object.values(labels ?? {})].join(' ');
    counts.set(key, (counts.get(key) ?? 0) + by);
  };
  const applier = createKvEventApplier({
    index,
    hasher,
    blockHashSeed,
    blockSizeOf: (owner) => sizes.get(owner) ?? null,
    learnBlockSize: (owner, size) => sizes.set(owner, size),
    onHintOutcome: (owner, outcome) => outcomes.push([owner, outcome]),
    onRestart: (owner) => restarts.push(owner),
    metrics: { count, observe() {}, gauge() {} },
    clock,
    ...options,
  });
  const send = (owner: OwnerSlot, sequence: number, ...events: KvEvent[]): void =>
    applier.onBatch(owner, sequence, encodeEventBatch({ timestamp: 0, rank: null, events }));
  const depth = (owner: OwnerSlot, tokens: number[], seed = blockHashSeed({})): number[] => {
    const { local, sequence } = hasher.hashPrompt(Uint32Array.from(tokens), 2, seed);
    const match = index.find(local, sequence, TIERS);
    const row = match.owners.subarray(0, match.count).indexOf(owner);
    return match.depthPerTier.map((column) => (row < 0 ? 0 : (column[row] ?? 0)));
  };
  return { applier, index, sizes, outcomes, restarts, counts, clock, send, depth };
}

describe('createKvEventApplier', () => {
  it('stores, chains behind a parent, removes and clears, per owner and tier', () => {
    const { send, depth, applier } = setUp();
    send(1, 0, stored([10, 11], [1, 2, 3, 4]));
    send(1, 1, stored([12], [5, 6], { after: 11 }));
    send(2, 0, stored([20], [1, 2]), stored([21], [3, 4], { after: 20, tier: 'host' }));
    expect(depth(1, [1, 2, 3, 4, 5, 6, 7])).toEqual([3, 0, 0, 0]);
    expect(depth(2, [1, 2, 3, 4, 5, 6, 7])).toEqual([1, 1, 0, 0]);
    send(1, 2, { kind: 'removed', external: hashes(11, 99), tier: 'device' });
    expect(depth(1, [1, 2, 3, 4, 5, 6])).toEqual([1, 0, 0, 0]);
    expect(applier.feed(1)?.unknownRemoves).toBe(1);
    send(2, 1, { kind: 'cleared' });
    expect(depth(2, [1, 2, 3, 4])).toEqual([0, 0, 0, 0]);
    expect(depth(1, [1, 2])).toEqual([1, 0, 0, 0]);
  });

  it('keeps adapters and cache salts apart', () => {
    const { send, depth } = setUp();
    send(1, 0, stored([10], [1, 2], { loraName: 'adapter', cacheSalt: 'tenant' }));
    expect(depth(1, [1, 2])).toEqual([0, 0, 0, 0]);
    const seed = blockHashSeed({ loraName: 'adapter', cacheSalt: 'tenant' });
    expect(depth(1, [1, 2], seed)).toEqual([1, 0, 0, 0]);
  });

  it('makes engine hashes of events translatable for hints', () => {
    const { send, index } = setUp();
    send(1, 0, stored([10, 11], [1, 2, 3, 4]));
    const { sequence } = hasher.hashPrompt(Uint32Array.of(1, 2, 3, 4), 2, blockHashSeed({}));
    const out = new BigUint64Array(2);
    expect(index.externalHashes(1, sequence, 0, 2, out)).toBe(2);
    expect(Array.from(out, u64FromBigInt)).toEqual([
      { lo: 10, hi: 9 },
      { lo: 11, hi: 9 },
    ]);
  });

  it('learns the block size from the first store and then refuses another, visibly', () => {
    const { send, depth, sizes, applier, counts } = setUp();
    send(1, 0, stored([10], [1, 2]));
    expect(sizes.get(1)).toBe(2);
    send(1, 1, stored([11], [3, 4, 5], { after: 10, blockSize: 3 }));
    expect(depth(1, [1, 2, 3, 4])).toEqual([1, 0, 0, 0]);
    expect(applier.feed(1)).toMatchObject({ mismatchedBlockSize: 3, rejected: { block_size: 1 } });
    expect(counts.get('pointsman_kv_events_rejected_total block_size')).toBe(1);
    expect(counts.get('pointsman_kv_events_total stored')).toBe(2);
  });

  it('counts what it refuses and goes on with the next event', () => {
    const { send, depth, applier } = setUp();
    const scope = { groupIndex: null, attentionKind: null, locality: null, unsupported: null };
    send(
      1,
      0,
      stored([10], [1, 2, 3]),
      stored([11], [1, 2], { after: 77 }),
      stored([12], [1, 2], { after: 12 }),
      stored([13], [1, 2], { scope: { ...scope, locality: 'REMOTE' } }),
      stored([14], [1, 2], { scope: { ...scope, groupIndex: 1, attentionKind: 'mamba' } }),
      { kind: 'removed', external: hashes(14), tier: 'device', scope: { ...scope, groupIndex: 1 } },
      stored([15], [1, 2], { scope: { ...scope, groupIndex: 2, attentionKind: 'mla_attention' } }),
    );
    expect(depth(1, [1, 2])).toEqual([1, 0, 0, 0]);
    expect(applier.feed(1)?.rejected).toEqual({
      token_count: 1,
      self_reference: 1,
      remote: 1,
      non_main_attention_kind: 1,
      non_main_attention_group: 1,
    });
    expect(applier.orphanBlocks(1)).toBe(1);
    send(1, 1, { kind: 'removed', external: hashes(15), tier: 'device', scope: { ...scope, groupIndex: 2 } });
    expect(depth(1, [1, 2])).toEqual([0, 0, 0, 0]);
  });

  it('flags an owner stale after a gap, keeps going, and trusts it again after a clear', () => {
    const { send, depth, applier, counts } = setUp();
    send(1, 0, stored([10], [1, 2]));
    expect(applier.feed(1)).toMatchObject({ stale: false, gaps: 0 });
    send(1, 4, stored([11], [3, 4], { after: 10 }));
    expect(applier.feed(1)).toMatchObject({ stale: true, gaps: 1, missedBatches: 3, lastSequence: 4 });
    expect(counts.get('pointsman_kv_event_batches_missed_total')).toBe(3);
    expect(depth(1, [1, 2, 3, 4])).toEqual([2, 0, 0, 0]);
    send(1, 5, { kind: 'cleared' });
    expect(applier.feed(1)).toMatchObject({ stale: false, gaps: 1 });
  });

  it('counts what was sent before it listened as missed', () => {
    const { send, applier } = setUp();
    send(1, 7, { kind: 'removed', external: hashes(1), tier: 'device' });
    expect(applier.feed(1)).toMatchObject({ stale: true, gaps: 1, missedBatches: 7, restarts: 0 });
  });

  it('takes a sequence that falls back as a new engine and forgets the old one’s blocks', () => {
    const { send, depth, applier, restarts } = setUp();
    send(1, 0, stored([10], [1, 2]));
    send(2, 0, stored([20], [1, 2]));
    send(1, 0, stored([30], [3, 4]));
    expect(restarts).toEqual([1]);
    expect(depth(1, [1, 2])).toEqual([0, 0, 0, 0]);
    expect(depth(1, [3, 4])).toEqual([1, 0, 0, 0]);
    expect(depth(2, [1, 2])).toEqual([1, 0, 0, 0]);
    expect(applier.feed(1)).toMatchObject({ restarts: 1, stale: false, missedBatches: 0 });
    // A number that was heard or given up is a repeat, not a new engine.
    send(1, 5);
    send(1, 2, stored([40], [5, 6]));
    expect(applier.feed(1)).toMatchObject({ restarts: 1, duplicates: 1, stale: true, missedBatches: 4 });
    expect(depth(1, [3, 4])).toEqual([1, 0, 0, 0]);
    expect(depth(1, [5, 6])).toEqual([0, 0, 0, 0]);
  });

  it('counts a batch it cannot decode, says why, and marks the owner stale', () => {
    const { applier, depth, send } = setUp();
    send(1, 0, stored([10], [1, 2]));
    applier.onBatch(1, 1, Uint8Array.of(0x93, 1));
    expect(applier.feed(1)).toMatchObject({
      stale: true,
      lastSequence: 1,
      rejected: { undecodable: 1 },
      lastError: 'KV event batch, byte 0: the batch claims 3 elements, more than bytes are left',
    });
    send(1, 2, stored([11], [3, 4], { after: 10 }));
    expect(depth(1, [1, 2, 3, 4])).toEqual([2, 0, 0, 0]);
  });

  it('gives blocks to the rank a batch names', () => {
    const { applier, depth } = setUp({ ownerOfRank: (owner, rank) => (rank < 4 ? owner + rank : null) });
    const events = [stored([10], [1, 2])];
    applier.onDecodedBatch(1, 0, { timestamp: 0, rank: 3, events });
    expect(depth(4, [1, 2])).toEqual([1, 0, 0, 0]);
    applier.onDecodedBatch(1, 1, { timestamp: 0, rank: 9, events });
    expect(applier.feed(1)?.rejected).toEqual({ unknown_rank: 1 });
  });

  it('passes hint outcomes on', () => {
    const { applier, outcomes } = setUp();
    const event = { type: 'KvHintOutcome', message_id: 'm', action_id: 'a2', outcome: 'accepted', blocks: 5 };
    applier.onBatch(3, 0, encode([0, [event], 0]));
    expect(outcomes).toEqual([
      [
        3,
        {
          kind: 'hint-outcome',
          messageId: 'm',
          actionId: 'a2',
          outcome: 'accepted',
          reason: null,
          blocks: 5,
        },
      ],
    ]);
  });

  it('knows the age of a stream and forgets a slot on demand', () => {
    const { applier, send, clock } = setUp();
    expect(applier.ageMs(1)).toBe(null);
    send(1, 0);
    clock.advanceTo(1250);
    expect(applier.ageMs(1)).toBe(250);
    applier.forget(1);
    expect(applier.feed(1)).toBe(null);
    send(1, 0);
    expect(applier.feed(1)).toMatchObject({ restarts: 0, batches: 1 });
  });

  it('gives the same index for bytes and for decoded batches', () => {
    const viaBytes = setUp();
    const decoded = setUp();
    const events = [stored([10, 11], [1, 2, 3, 4]), stored([12], [9, 9], { after: 10 })];
    viaBytes.send(1, 0, ...events);
    decoded.applier.onDecodedBatch(1, 0, { timestamp: 0, rank: null, events });
    expect(viaBytes.index.dump(0, 100)).toEqual(decoded.index.dump(0, 100));
  });

  it('learns no block size from a store that contradicts itself or stores nothing', () => {
    const { send, sizes, applier } = setUp();
    send(1, 0, stored([10, 11], [1, 2, 3], { blockSize: 7 }), stored([], [], { blockSize: 9 }));
    expect(sizes.get(1)).toBeUndefined();
    send(1, 1, stored([10], [1, 2], { after: 99 }));
    expect(sizes.get(1)).toBe(2);
    expect(applier.feed(1)?.rejected).toEqual({ token_count: 1 });
    expect(applier.orphanBlocks(1)).toBe(1);
  });

  it('forgets every rank that a restarted connection spoke for, and no other', () => {
    const { applier, index } = setUp({ ownerOfRank: (_, rank) => 10 + rank });
    const announce = (owner: OwnerSlot, sequence: number, rank: number | null, events: KvEvent[]): void =>
      applier.onBatch(owner, sequence, encodeEventBatch({ timestamp: 0, rank, events }));
    announce(10, 0, null, [stored([1], [1, 2])]);
    announce(10, 1, 1, [stored([2], [1, 2])]);
    announce(10, 2, 2, [stored([3], [1, 2])]);
    announce(20, 0, 9, [stored([4], [1, 2])]);
    expect(index.stats().residencies).toBe(4);
    announce(10, 0, 1, []);
    expect(index.stats().residencies).toBe(1);
  });

  it('asks for a gap, forgets nothing it knows, and applies each batch once', () => {
    const { applier, send, depth, clock, counts, index } = setUp();
    const asked: number[] = [];
    const listeners: KvReplayListener[] = [];
    applier.askAt(1, {
      replay(from, hears) {
        asked.push(from);
        listeners.push(hears);
        return () => undefined;
      },
    });
    const batch = (...events: KvEvent[]): Uint8Array =>
      encodeEventBatch({ timestamp: 0, rank: null, events });
    send(1, 0, stored([10], [1, 2]));
    send(1, 2, stored([12], [5, 6], { after: 11 }));
    expect([asked, applier.feed(1)?.isRecovering, depth(1, [1, 2, 3, 4, 5, 6])]).toEqual([
      [0],
      true,
      [1, 0, 0, 0],
    ]);
    const { batch: hear, ended } = listeners[0] ?? expect.fail();
    hear(0, batch(stored([10], [1, 2])));
    hear(1, batch(stored([11], [3, 4], { after: 10 })));
    hear(2, batch(stored([12], [5, 6], { after: 11 })));
    ended();
    expect(depth(1, [1, 2, 3, 4, 5, 6])).toEqual([3, 0, 0, 0]);
    expect(applier.feed(1)).toMatchObject({
      stale: false,
      isRecovering: false,
      replayedBatches: 3,
      replays: { asked: 1, answered: 1 },
    });
    expect(index.stats().duplicateStores).toBe(0);
    expect(counts.get('pointsman_kv_event_replays_total asked')).toBe(1);
    expect(counts.get('pointsman_kv_event_batches_replayed_total')).toBe(3);
    expect(clock.nextTimerAt()).toBe(null);
  });

  it('asks for everything when blocks wait for a parent', () => {
    const { applier, send } = setUp();
    const asked: number[] = [];
    applier.askAt(1, {
      replay(from) {
        asked.push(from);
        return () => undefined;
      },
    });
    send(1, 0, stored([11], [3, 4], { after: 10 }));
    expect(asked).toEqual([0]);
  });
});
