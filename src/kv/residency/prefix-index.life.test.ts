// Long random lives beside the radix model; `npm run soak -- --index` leads far longer ones.
import { expect, test } from 'vitest';
import { createBlockHasher } from '../hashing/block-hasher.ts';
import { createReferenceHasher } from '../hashing/reference-hasher.ts';
import { createPrefixIndex } from './extent-index.ts';
import { NaivePrefixIndex } from './naive-prefix-index.fixtures.ts';
import { leadIndexLife } from './random-index-ops.fixtures.ts';

/** A million operations: few and many owners, shallow and deep chains, clears in pieces or at once, stores counted or not. */
const LIVES = [
  { operations: 700_000, owners: 3, depth: 12, countStores: true, inPieces: true },
  { operations: 200_000, owners: 12, depth: 30, countStores: false, inPieces: true },
  { operations: 80_000, owners: 70, depth: 24, countStores: true, inPieces: false },
  { operations: 20_000, owners: 70, depth: 150, countStores: false, inPieces: true },
];
/** Milliseconds a life may take where machines are slow and busy. */
const PATIENCE = 300_000;

for (const [seed, { inPieces, ...life }] of LIVES.entries()) {
  test(
    `${life.operations} operations of ${life.owners} owners on chains of ${life.depth} blocks`,
    () => {
      const pieces: (() => void)[] = [];
      const index = createPrefixIndex({
        hasher: createBlockHasher(),
        countStores: life.countStores,
        ...(inPieces ? { later: (work: () => void) => void pieces.push(work), sweepPlaces: 64 } : {}),
      });
      leadIndexLife(index, { ...life, seed, pieces });
      expect(index.stats().version).toBeGreaterThan(life.operations / 10);
    },
    PATIENCE,
  );
}

test('the naive index and the radix model agree', () => {
  const naive = new NaivePrefixIndex(createReferenceHasher());
  leadIndexLife(naive, { operations: 1500, owners: 5, depth: 10, seed: 7, countStores: false });
  expect(naive.stats().version).toBeGreaterThan(100);
});
