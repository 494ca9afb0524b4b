// Clears in pieces, counted stores, and bytes truly held.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { ManualClock } from '../../plugin/index.ts';
import { createReferenceHasher } from '../hashing/reference-hasher.ts';
import { createPrefixIndex } from './extent-index.ts';
import type { PrefixIndex } from './types.ts';

const hasher = createReferenceHasher();

/** n hashes that start at `first`. */
function hashes(first: number, n: number): Uint32Array {
  const list = new Uint32Array(2 * n);
  for (let i = 0; i < n; i++) list[2 * i] = first + i;
  return list;
}

function depth(index: PrefixIndex, local: Uint32Array): number {
  const sequence = new Uint32Array(local.length);
  hasher.chain(null, local, sequence);
  const match = index.find(local, sequence, ['device']);
  return match.count === 0 ? 0 : match.depthPerTier[0]![0]!;
}

test('a clear of many blocks is done in pieces that the clock runs, and is over for everybody at once', () => {
  const clock = new ManualClock();
  let pieces = 0;
  const later = (work: () => void) => {
    clock.schedule(1, () => {
      pieces++;
      work();
    });
  };
  const index = createPrefixIndex({ hasher, later, sweepPlaces: 640 });
  for (let chain = 0; chain < 10; chain++) {
    index.store(0, 'device', null, hashes(chain * 1000, 640), hashes(chain * 5000, 640));
  }
  index.store(1, 'device', null, hashes(0, 640), hashes(0, 640));
  index.clear(0, 'all');
  expect(index.stats()).toMatchObject({ residencies: 640, ownersToSweep: 1 });
  expect(depth(index, hashes(5000, 640))).toBe(0);
  expect(depth(index, hashes(0, 640))).toBe(640);
  // What comes after the clear is there, under the same names too.
  index.store(0, 'device', null, hashes(2000, 100), hashes(10_000, 100));
  expect(depth(index, hashes(10_000, 640))).toBe(100);
  clock.advanceTo(100);
  expect(pieces).toBeGreaterThanOrEqual(8);
  expect(pieces).toBeLessThanOrEqual(13);
  expect(index.stats()).toMatchObject({ residencies: 740, blocks: 740, holdings: 740, ownersToSweep: 0 });
  expect(depth(index, hashes(10_000, 640))).toBe(100);
});

test('a full index takes cleared blocks away to make room, without waiting for the clock', () => {
  const index = createPrefixIndex({ hasher, maxHoldings: 100, later: () => undefined, sweepPlaces: 1 });
  index.store(0, 'device', null, hashes(0, 100), hashes(0, 100));
  index.clear(0, 'all');
  expect(index.store(1, 'device', null, hashes(0, 100), hashes(500, 100))).toBe('stored');
});

test('hundreds of clears of one owner between two pieces are told apart', () => {
  // One column is swept per clear, and three are made.
  const index = createPrefixIndex({ hasher, later: () => undefined, sweepPlaces: 1 });
  for (let round = 0; round < 600; round++) {
    for (let chain = 0; chain < 3; chain++) {
      const name = hashes(3 * round + chain, 1);
      index.store(0, 'host', null, name, name);
    }
    index.clear(0, 'host');
    expect(index.remove(0, 'host', hashes(3 * round, 3))).toBe(0);
  }
  expect(index.stats().residencies).toBe(0);
});

test('where stores are counted it takes as many removes', () => {
  const index = createPrefixIndex({ hasher, countStores: true });
  for (let copy = 0; copy < 3; copy++) index.store(0, 'device', null, hashes(7, 2), hashes(1, 2));
  expect(index.remove(0, 'device', hashes(7, 2))).toBe(2);
  expect(index.remove(0, 'device', hashes(8, 1))).toBe(1);
  expect(depth(index, hashes(1, 2))).toBe(2);
  expect(index.remove(0, 'device', hashes(8, 1))).toBe(1);
  expect(depth(index, hashes(1, 2))).toBe(1);
  index.clear(0, 'all');
  index.store(0, 'device', null, hashes(7, 2), hashes(1, 2));
  expect(index.remove(0, 'device', hashes(7, 2))).toBe(2);
  expect(index.stats()).toMatchObject({ blocks: 0, unknownRemoves: 0 });
});

test('where counts are no longer trusted a remove undoes all, and what is stored from then on counts once', () => {
  let isTrusted = true;
  const index = createPrefixIndex({ hasher, countStores: (owner) => owner !== 0 || isTrusted });
  for (let copy = 0; copy < 3; copy++) {
    for (const owner of [0, 1]) index.store(owner, 'device', null, hashes(7, 1), hashes(1, 1));
  }
  isTrusted = false;
  index.store(0, 'device', null, hashes(7, 1), hashes(1, 1));
  for (const owner of [0, 1]) index.remove(owner, 'device', hashes(7, 1));
  expect(index.stats().residencies).toBe(1);
  isTrusted = true;
  index.store(0, 'device', null, hashes(7, 1), hashes(1, 1));
  expect(index.remove(0, 'device', hashes(7, 1))).toBe(1);
  expect(index.remove(0, 'device', hashes(7, 1))).toBe(0);
});

test('bytes are those of the array buffers of the process', () => {
  setFlagsFromString('--expose-gc');
  const collect: () => void = runInNewContext('gc');
  const held = (): number => {
    collect();
    collect();
    return process.memoryUsage().arrayBuffers;
  };
  const events = Array.from({ length: 1500 }, (_, i) => ({
    external: hashes(i * 100, 100),
    local: hashes(i * 300, 100),
  }));
  const before = held();
  const index = createPrefixIndex({ hasher });
  for (const [i, { external, local }] of events.entries()) {
    index.store(i % 9, 'device', null, i % 2 === 0 ? external : local, local);
  }
  const { bytes } = index.stats();
  // The hasher and the table of slots being moved hold a little of their own.
  expect(Math.abs(held() - before - bytes)).toBeLessThan(bytes * 0.02 + 300_000);
  expect(bytes).toBeGreaterThan(5_000_000);
  // What was stored is part of both readings, so it must be reachable until the second.
  expect(events).toHaveLength(1500);
  index.clear(0, 'all');
});
