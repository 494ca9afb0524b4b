// Counted copies where streams go on from a snapshot, lose batches or begin anew: no block may stay that its engine has dropped.
import { describe, expect, it } from 'vitest';
import { createPrefixIndex, readSnapshot, restoreSnapshot, SnapshotWriter } from '../kv/index.ts';
import { bench, hasher, removed, stored } from './applier.fixtures.ts';
import { countsCopies } from './event-feed.ts';
import type { KvEventApplier } from './kv-event-applier.ts';
import type { KvEvent } from './types.ts';

/** An applier over an index that counts copies as the router's does. */
function counting() {
  let applier: KvEventApplier | null = null;
  const index = createPrefixIndex({
    hasher,
    countStores: (owner) => countsCopies(applier?.feed(owner) ?? null),
  });
  const made = bench({ index });
  applier = made.applier;
  const hear = (sequence: number, ...events: KvEvent[]): void =>
    applier?.onDecodedBatch(1, sequence, { timestamp: sequence + 1, rank: null, events });
  return { ...made, index, hear };
}

const A = stored([10], [1, 2]);
const B = stored([20], [3, 4]);

describe('copies of a block', () => {
  it('are counted from the first batch on', () => {
    const { hear, index } = counting();
    hear(0, A, A);
    hear(1, removed([10]));
    expect(index.stats().residencies).toBe(1);
    hear(2, removed([10]));
    expect(index.stats().residencies).toBe(0);
  });

  it('that a snapshot has and its stream tells once more are one', () => {
    const live = counting();
    live.hear(0, stored([30], [9, 9]));
    const writer = new SnapshotWriter({
      index: live.index,
      rowsPerPiece: 1,
      takenAtMs: 0,
      owners: new Map([
        [
          1,
          {
            workerId: 1n,
            rank: 0,
            model: 'tiny',
            routingGroup: 'default',
            blockSize: 2,
            epoch: null,
            watermark: 0,
            watermarkTime: 1,
            stale: false,
            partial: false,
          },
        ],
      ]),
    });
    const pieces = writer.pieces();
    const bytes = [pieces.next().value ?? new Uint8Array()];
    // The file goes on; these are behind its watermark, and their rows are in it.
    live.hear(1, A);
    live.hear(2, removed([10]));
    live.hear(3, A, B);
    bytes.push(...pieces);
    const restored = counting();
    const point = { sequence: 0, time: 1, stale: false, partial: false };
    restored.applier.resume(1, point);
    restoreSnapshot(readSnapshot(Buffer.concat(bytes)), restored.index, hasher, () => 1);
    expect(restored.index.stats().residencies).toBe(3);
    for (const each of [live, restored]) {
      if (each === restored) {
        each.hear(1, A);
        each.hear(2, removed([10]));
        each.hear(3, A, B);
      }
      each.hear(4, removed([10, 20, 30]));
      expect(each.index.stats()).toMatchObject({ residencies: 0, unknownRemoves: 0 });
    }
    expect(restored.applier.feed(1)).toMatchObject({ restored: true, stale: false });
  });

  it('are counted again once everything was forgotten', () => {
    const { hear, applier, index } = counting();
    applier.resume(1, { sequence: 4, time: 5, stale: false, partial: false });
    hear(5, A, A);
    hear(6, removed([10]));
    expect(index.stats().residencies).toBe(0);
    hear(7, { kind: 'cleared' });
    expect(applier.feed(1)?.restored).toBe(false);
    hear(8, A, A);
    hear(9, removed([10]));
    expect(index.stats().residencies).toBe(1);
  });

  it('are one while batches are lost, whatever was counted before and is after', () => {
    const { hear, index } = counting();
    hear(0, A, A, A);
    hear(2, A);
    hear(3, removed([10]));
    expect(index.stats().residencies).toBe(0);
    hear(4, A, A, { kind: 'cleared' });
    hear(5, A);
    hear(6, removed([10]));
    expect(index.stats().residencies).toBe(0);
  });
});
