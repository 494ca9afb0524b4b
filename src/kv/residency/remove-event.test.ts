import { expect, test } from 'vitest';
import { createReferenceHasher } from '../hashing/reference-hasher.ts';
import { createPrefixIndex } from './extent-index.ts';

const hasher = createReferenceHasher();
const BLOCKS = 100;
const names = (...list: number[]) => Uint32Array.from(list.flatMap((name) => [name, 1]));
const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);

function filled(countStores = false) {
  const index = createPrefixIndex({ hasher, countStores });
  const local = Uint32Array.from(range(0, 2 * BLOCKS));
  const store = (tier: 'device' | 'host') => index.store(0, tier, null, names(...range(0, BLOCKS)), local);
  store('device');
  return { index, store };
}

test('engine hashes side by side that are named again, or skipped, are taken off once', () => {
  const { index } = filled();
  const list = names(...range(10, 20), ...range(10, 20), ...range(30, 70), 5, 4, 500, 20, 20);
  expect(index.remove(0, 'device', list)).toBe(10 + 40 + 2 + 1);
  expect(index.stats().unknownRemoves).toBe(10 + 1 + 1);
  const left = range(0, BLOCKS).filter((name) => index.knows(0, { lo: name, hi: 1 }));
  expect(left).toEqual([...range(0, 4), ...range(6, 10), ...range(21, 30), ...range(70, BLOCKS)]);
  expect(index.remove(0, 'device', names(...range(0, BLOCKS)))).toBe(left.length);
  expect(index.stats()).toMatchObject({ blocks: 0, holdings: 0, residencies: 0, holderSets: 0 });
});

test('of a run that is on two tiers, or stored twice and counted, the rest stays', () => {
  const both = filled();
  both.store('host');
  expect(both.index.remove(0, 'device', names(...range(0, 50)))).toBe(50);
  expect(both.index.blocksOf(0)).toEqual([50, BLOCKS, 0, 0]);
  const twice = filled(true);
  twice.store('device');
  expect(twice.index.remove(0, 'device', names(...range(0, 50)))).toBe(50);
  expect(twice.index.blocksOf(0)).toEqual([BLOCKS, 0, 0, 0]);
  expect(twice.index.remove(0, 'device', names(...range(0, 50)))).toBe(50);
  expect(twice.index.blocksOf(0)).toEqual([50, 0, 0, 0]);
});

test('a watcher is told of each engine hash of a run', () => {
  const { index } = filled();
  const told: number[] = [];
  index.watch({ removing: (row) => void told.push(row.external.lo), forgotten: () => {} });
  index.remove(0, 'device', names(...range(3, 90)));
  expect(told).toEqual(range(3, 90));
});

test('a parent that was removed is unknown, though it was stored last', () => {
  const { index } = filled();
  const last = { lo: BLOCKS - 1, hi: 1 };
  index.remove(0, 'device', names(BLOCKS - 1));
  expect(index.store(0, 'device', last, names(700), names(1))).toBe('unknown-parent');
  index.clear(0, 'all');
  expect(index.store(0, 'device', last, names(700), names(1))).toBe('unknown-parent');
});
