// Long random lives beside the radix model; `npm run soak -- --index` leads far longer ones.
import { expect, test } from 'vitest';
import { createBlockHasher } from '../hashing/block-hasher.ts';
import { createReferenceHasher } from '../hashing/reference-hasher.ts';
import { createPrefixIndex } from './canonical-chain-index.ts';
import { NaivePrefixIndex } from './naive-prefix-index.fixtures.ts';
import { leadIndexLife } from './random-index-ops.fixtures.ts';

/** Few and many owners, shallow and deep chains. */
const LIVES = [
  { operations: 60_000, owners: 3, depth: 12 },
  { operations: 30_000, owners: 70, depth: 40 },
  { operations: 10_000, owners: 70, depth: 200 },
];

for (const [seed, life] of LIVES.entries()) {
  test(`${life.operations} operations of ${life.owners} owners on chains of ${life.depth} blocks`, () => {
    const index = createPrefixIndex({ hasher: createBlockHasher() });
    leadIndexLife(index, { ...life, seed, countStores: false });
    expect(index.stats().version).toBeGreaterThan(life.operations / 10);
  });
}

test('the naive index and the radix model agree', () => {
  const naive = new NaivePrefixIndex(createReferenceHasher());
  leadIndexLife(naive, { operations: 1500, owners: 5, depth: 10, seed: 7, countStores: false });
  expect(naive.stats().version).toBeGreaterThan(100);
});
