// Long random lives beside the radix model; `npm run soak -- --index` leads far longer ones.
import { expect, test } from 'vitest';
import { createBlockHasher } from '../hashing/block-hasher.ts';
import { createReferenceHasher } from '../hashing/reference-hasher.ts';
import { u64ToBigInt } from '../hashing/u64.ts';
import { createPrefixIndex } from './extent-index.ts';
import { NaivePrefixIndex } from './naive-prefix-index.fixtures.ts';
import { leadIndexLife } from './random-index-ops.fixtures.ts';

/** A million operations: few and many owners, shallow and deep chains, clears in pieces or at once, stores counted or not, caps. */
const LIVES = [
  { operations: 450_000, owners: 3, depth: 12, countStores: true, inPieces: true, caps: {} },
  { operations: 250_000, owners: 3, depth: 12, countStores: true, inPieces: true, caps: { maxHoldings: 90 } },
  { operations: 120_000, owners: 12, depth: 30, countStores: false, inPieces: true, caps: {} },
  {
    operations: 80_000,
    owners: 12,
    depth: 30,
    countStores: true,
    inPieces: false,
    caps: { maxBytes: 160_000 },
  },
  { operations: 50_000, owners: 70, depth: 24, countStores: true, inPieces: false, caps: {} },
  {
    operations: 30_000,
    owners: 70,
    depth: 24,
    countStores: false,
    inPieces: true,
    caps: { maxHoldings: 700 },
  },
  { operations: 20_000, owners: 70, depth: 150, countStores: false, inPieces: true, caps: {} },
];
/** Milliseconds a life may take where machines are slow and busy. */
const PATIENCE = 300_000;

for (const [seed, { inPieces, caps, ...life }] of LIVES.entries()) {
  const isCapped = Object.keys(caps).length > 0;
  test(
    `${life.operations} operations of ${life.owners} owners on chains of ${life.depth} blocks${isCapped ? ' in a capped index' : ''}`,
    () => {
      const pieces: (() => void)[] = [];
      const evicted: { owner: number; external: bigint }[] = [];
      const index = createPrefixIndex({
        hasher: createBlockHasher(),
        countStores: life.countStores,
        evicted: (owner, external) => void evicted.push({ owner, external: u64ToBigInt(external) }),
        ...caps,
        ...(inPieces ? { later: (work: () => void) => void pieces.push(work), sweepPlaces: 64 } : {}),
      });
      leadIndexLife(index, { ...life, seed, pieces, evicted });
      expect(index.stats().version).toBeGreaterThan(life.operations / 10);
      if (isCapped) expect(index.stats().evicted).toBeGreaterThan(life.operations / 100);
      else expect(index.stats().evicted).toBe(0);
    },
    PATIENCE,
  );
}

test('the naive index and the radix model agree', () => {
  const naive = new NaivePrefixIndex(createReferenceHasher());
  leadIndexLife(naive, { operations: 1500, owners: 5, depth: 10, seed: 7, countStores: false });
  expect(naive.stats().version).toBeGreaterThan(100);
});
