// What gives way when an index is full: the least recently matched blocks of the largest holders, tails first.
import { expect, test } from 'vitest';
import { createBlockHasher } from '../hashing/block-hasher.ts';
import { u64ToBigInt } from '../hashing/u64.ts';
import { createPrefixIndex } from './extent-index.ts';
import type { PrefixIndex } from './types.ts';

const hasher = createBlockHasher();

/** n hashes that start at `first`. */
function hashes(first: number, n: number): Uint32Array {
  const list = new Uint32Array(2 * n);
  for (let i = 0; i < n; i++) list[2 * i] = first + i;
  return list;
}

/** Stores chain number `chain` of an owner, whole or from block `from` on. */
function store(index: PrefixIndex, owner: number, chain: number, blocks: number, from = 0): void {
  const all = hashes(chain * 100_000, from + blocks);
  const parent = from === 0 ? null : { lo: all[2 * from - 2]!, hi: 0 };
  index.store(owner, 'device', parent, all.subarray(2 * from), all.subarray(2 * from));
}

/** Leading blocks of a chain that an owner holds. */
function depth(index: PrefixIndex, owner: number, chain: number, blocks: number): number {
  const local = hashes(chain * 100_000, blocks);
  const sequence = new Uint32Array(local.length);
  hasher.chain(null, local, sequence);
  const match = index.find(local, sequence, ['device']);
  const row = match.owners.subarray(0, match.count).indexOf(owner);
  return row < 0 ? 0 : match.depthPerTier[0]![row]!;
}

/** Lets time go on by look-ups that find nothing. */
function pass(index: PrefixIndex): void {
  for (let i = 0; i < 32; i++) index.find(hashes(1, 1), hashes(1, 1), ['device']);
}

test('chains that were not looked up for longest give way, from their ends', () => {
  const index = createPrefixIndex({ hasher, maxHoldings: 2000 });
  for (let chain = 0; chain < 10; chain++) {
    store(index, 0, chain, 200);
    pass(index);
  }
  for (let chain = 0; chain < 10; chain++) {
    if (chain === 4) continue;
    expect(depth(index, 0, chain, 200)).toBe(200);
    pass(index);
  }
  store(index, 0, 10, 100);
  const left = depth(index, 0, 4, 200);
  expect(left).toBeLessThanOrEqual(100);
  expect(left).toBe(200 - index.stats().evicted);
  for (let chain = 0; chain < 10; chain++) if (chain !== 4) expect(depth(index, 0, chain, 200)).toBe(200);
  expect(depth(index, 0, 10, 100)).toBe(100);
});

test('what a chain goes on with is as old as the chain, so that no hole is made in front of it', () => {
  const index = createPrefixIndex({ hasher, maxHoldings: 1000 });
  store(index, 0, 0, 64);
  pass(index);
  store(index, 0, 1, 500);
  for (let more = 64; more < 448; more += 64) {
    pass(index);
    store(index, 0, 0, 64, more);
  }
  pass(index);
  store(index, 0, 2, 200);
  const { evicted } = index.stats();
  expect(evicted).toBeGreaterThanOrEqual(148);
  expect(depth(index, 0, 0, 448)).toBe(448 - evicted);
  expect(depth(index, 0, 1, 500)).toBe(500);
});

test('owners that hold less than others keep what they hold', () => {
  const index = createPrefixIndex({ hasher, maxHoldings: 1100 });
  for (let owner = 1; owner <= 5; owner++) store(index, owner, owner, 20);
  pass(index);
  store(index, 0, 0, 1000);
  for (let chain = 10; chain < 40; chain++) {
    pass(index);
    store(index, 0, chain, 100);
  }
  for (let owner = 1; owner <= 5; owner++) expect(index.blocksOf(owner)).toEqual([20, 0, 0, 0]);
  expect(index.stats().evicted).toBe(3000 + 1100 - index.stats().holdings);
});

test('the chain that is about to go on is kept, however old', () => {
  const index = createPrefixIndex({ hasher, maxHoldings: 300 });
  store(index, 0, 0, 100);
  pass(index);
  store(index, 0, 1, 200);
  expect(depth(index, 0, 1, 200)).toBe(200);
  pass(index);
  store(index, 0, 0, 50, 100);
  expect(depth(index, 0, 0, 150)).toBe(150);
});

test('removes of what was evicted are counted apart, as often as it was evicted', () => {
  const gone: bigint[] = [];
  const index = createPrefixIndex({
    hasher,
    maxHoldings: 100,
    evicted: (owner, external) => void gone.push(u64ToBigInt(external) + BigInt(owner)),
  });
  store(index, 0, 1, 60);
  index.store(0, 'host', null, hashes(100_000, 60), hashes(100_000, 60));
  pass(index);
  store(index, 0, 2, 90);
  const { evicted, version } = index.stats();
  expect(evicted).toBe(gone.length);
  expect(gone.length).toBeGreaterThanOrEqual(50);
  expect(version).toBe(4);
  const held = 60 - evicted;
  expect(index.blocksOf(0)).toEqual([90 + held, held, 0, 0]);
  for (const tier of ['device', 'host'] as const) {
    expect(index.remove(0, tier, hashes(100_000, 60))).toBe(60);
  }
  expect(index.remove(0, 'host', hashes(100_000, 60))).toBe(0);
  expect(index.stats()).toMatchObject({ evictedRemoves: 2 * evicted, unknownRemoves: 60 });
  store(index, 0, 3, 60);
  expect(index.stats().evicted).toBeGreaterThan(evicted);
  index.clear(0, 'all');
  // An engine that forgot all removes nothing of before.
  expect(index.remove(0, 'device', hashes(200_000, 90))).toBe(0);
});

test('an event that changes nothing evicts nothing, one larger than the cap is refused', () => {
  const index = createPrefixIndex({ hasher, maxHoldings: 100 });
  store(index, 0, 1, 100);
  store(index, 0, 1, 100);
  index.store(0, 'host', null, hashes(100_000, 100), hashes(100_000, 100));
  expect(index.stats()).toMatchObject({ evicted: 0, residencies: 200 });
  expect(() => store(index, 0, 2, 101)).toThrow('has no room for 101 more');
  expect(index.stats()).toMatchObject({ evicted: 0, residencies: 200 });
});

test('what is cleared but still in place goes before anything is evicted', () => {
  const index = createPrefixIndex({ hasher, maxHoldings: 200, later: () => undefined, sweepPlaces: 1 });
  store(index, 0, 0, 100);
  store(index, 1, 1, 100);
  index.clear(0, 'all');
  store(index, 1, 2, 100);
  expect(index.stats()).toMatchObject({ evicted: 0, holdings: 200 });
});

for (const blocks of [1, 5, 30, 700]) {
  test(`an index of chains of ${blocks} blocks keeps its bytes while engines hold ever more`, () => {
    const maxBytes = 3_000_000;
    const index = createPrefixIndex({ hasher, maxBytes });
    let most = 0;
    const total = 120_000;
    for (let chain = 0; chain < total / blocks; chain++) {
      store(index, chain % 7, chain, blocks);
      most = Math.max(most, index.stats().bytes);
    }
    expect(most).toBeLessThanOrEqual(maxBytes);
    expect(most).toBeGreaterThan(maxBytes * 0.8);
    const { holdings, evicted } = index.stats();
    expect(holdings + evicted).toBe(Math.ceil(total / blocks) * blocks);
    expect(most / holdings).toBeLessThan(400);
  });
}

test('room that short chains leave serves long ones, and the other way round', () => {
  const index = createPrefixIndex({ hasher, maxBytes: 2_000_000 });
  const held: number[] = [];
  for (const blocks of [2, 640, 2, 640, 12]) {
    for (let n = 0; n < 60_000; n += blocks) store(index, n % 3, 1 + held.length * 100_000 + n, blocks);
    held.push(index.stats().holdings);
  }
  // In so small an index a few steps of its tables weigh more than what is reserved for them.
  expect(index.stats().bytes).toBeLessThanOrEqual(2_000_000 * 1.03);
  expect(held[3]! / held[1]!).toBeGreaterThan(0.8);
  expect(held[2]! / held[0]!).toBeGreaterThan(0.6);
});
