// A million operations of random lives beside the radix model, a share of them led by the naive index too; `npm run soak -- --index` leads far longer ones.
import { describe, expect, it } from 'vitest';
import { LIFE_KINDS, type LifeKind, leadLife, nameOf } from '../bench/index-lives.ts';

type Tally = ReturnType<typeof leadLife>;

/** Operations of each kind, most of those that are led fastest; and between two snapshots, where the kind's are too far apart. */
const LENGTHS: readonly { readonly operations: number; readonly copyEvery?: number }[] = [
  { operations: 250_000 },
  { operations: 200_000 },
  { operations: 150_000 },
  { operations: 90_000 },
  { operations: 90_000 },
  { operations: 60_000 },
  { operations: 40_000, copyEvery: 10_000 },
  { operations: 60_000, copyEvery: 10_000 },
  { operations: 25_000, copyEvery: 5000 },
  { operations: 12_000, copyEvery: 4000 },
  { operations: 15_000, copyEvery: 5000 },
  { operations: 8000, copyEvery: 4000 },
];
/** Kinds small enough for the naive index, and the length of its lives. */
const NAIVE_KINDS = [0, 2, 3, 5];
const NAIVE_LENGTH = 8000;
/** Milliseconds a life may take where machines are slow and busy. */
const PATIENCE = 300_000;

/** What no life is without. */
const ALWAYS = [
  'stores',
  'duplicates',
  'removes',
  'middleRemoves',
  'unknownNames',
  'repeatedNames',
  'tierMoves',
  'clears',
  'lostWorkers',
] as const satisfies readonly (keyof Tally)[];

function expectLived(tally: Tally, { caps, isApplied = false }: LifeKind, operations: number): void {
  expect(tally.operations).toBe(operations);
  for (const name of ALWAYS) expect(tally[name], name).toBeGreaterThan(0);
  expect(tally.snapshots).toBeGreaterThan(0);
  expect(tally.takenUp).toBeGreaterThan(0);
  if (caps === undefined)
    expect(tally).toMatchObject({ evicted: 0, refused: 0, rowsLeft: 0, takenUp: tally.snapshots });
  else expect(tally.evicted).toBeGreaterThan(operations / 100);
  expect(tally.refused).toBeLessThanOrEqual(operations / 10_000);
  expect(tally.waited > 0).toBe(isApplied);
  expect(tally.repaired > 0).toBe(isApplied);
}

describe('the index and a radix tree over contents agree', () => {
  it('over a million operations', () => {
    expect(LENGTHS.length).toBe(LIFE_KINDS.length);
    expect(LENGTHS.reduce((sum, { operations }) => sum + operations, 0)).toBe(1_000_000);
  });

  for (const [seed, kind] of LIFE_KINDS.entries()) {
    const { operations = 0, ...length } = LENGTHS[seed] ?? {};
    const title = `through ${operations} of ${nameOf(kind)}`;
    it(title, () => expectLived(leadLife(kind, { seed, operations, ...length }), kind, operations), PATIENCE);
  }
});

describe('the naive index and the same tree agree', () => {
  for (const seed of NAIVE_KINDS) {
    const kind = LIFE_KINDS[seed]!;
    const length = { seed, operations: NAIVE_LENGTH };
    const title = `through ${NAIVE_LENGTH} of ${nameOf(kind)}`;
    it(
      title,
      () => expectLived(leadLife(kind, { ...length, copyEvery: 500, isNaive: true }), kind, NAIVE_LENGTH),
      PATIENCE,
    );

    // A snapshot keeps no order of a block's names, so that two builds go on from it with other names.
    it(
      `${title}, without snapshots the very life of the index`,
      () => {
        const whole = { ...length, copyEvery: Number.MAX_SAFE_INTEGER };
        expect(leadLife(kind, { ...whole, isNaive: true })).toEqual(leadLife(kind, whole));
      },
      PATIENCE,
    );
  }
});
