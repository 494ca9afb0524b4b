// The typed-array index against the naive one: random streams of events over few owners and a small alphabet of contents, so that
// forks, shared prefixes, holes, repeated stores, second names for one content and conflicting names all happen often.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createReferenceHasher } from '../hashing/reference-hasher.ts';
import type { HashPairs, U64 } from '../hashing/types.ts';
import { fromBigUint64Array, u64FromBigInt, u64ToBigInt } from '../hashing/u64.ts';
import { createPrefixIndex } from './extent-index.ts';
import { NaivePrefixIndex } from './naive-prefix-index.fixtures.ts';
import { type DumpedBlock, type PrefixIndex, TIERS, type Tier } from './types.ts';

const hasher = createReferenceHasher();

const MAX = 2n ** 64n - 1n;
/** Contents of blocks; the extremes and values that differ in one half only are among them. */
const LOCALS = [0n, MAX, 1n, 2n ** 32n];
const OWNERS = [0, 3, 65_535];
const WORKERS = [1n, MAX];
const MAX_DEPTH = 5;

type Chain = readonly number[];
/** How an engine names blocks. Names that depend on depth alone clash between chains. */
const NAMINGS = [
  (prefix: Chain) => prefix.reduce((name, local) => (name * 31n + BigInt(local) + 7n) & MAX, 0n),
  (prefix: Chain) => MAX - prefix.reduce((name, local) => name * 5n + BigInt(local) + 1n, 0n),
  (prefix: Chain) => BigInt(prefix.length - 1),
  () => MAX,
];

type Op =
  | {
      readonly kind: 'store';
      readonly owner: number;
      readonly tier: Tier;
      readonly chain: Chain;
      readonly start: number;
      readonly naming: number;
      readonly parentNaming: number;
    }
  | {
      readonly kind: 'remove';
      readonly owner: number;
      readonly tier: Tier;
      readonly chain: Chain;
      readonly start: number;
      readonly naming: number;
    }
  | { readonly kind: 'clear'; readonly owner: number; readonly tier: Tier | 'all' }
  | { readonly kind: 'bind'; readonly owner: number; readonly worker: bigint }
  | { readonly kind: 'removeWorker'; readonly worker: bigint };

const owner = fc.constantFrom(...OWNERS);
// Mostly the same tier, so that chains get long enough to continue.
const tier = fc.oneof({ weight: 3, arbitrary: fc.constant<Tier>('device') }, fc.constantFrom(...TIERS));
const localIndex = fc.oneof(
  { weight: 3, arbitrary: fc.constant(0) },
  fc.integer({ min: 0, max: LOCALS.length - 1 }),
);
const chain = fc.array(localIndex, { minLength: 1, maxLength: MAX_DEPTH });
const start = fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, fc.integer({ min: 0, max: MAX_DEPTH }));
const naming = fc.oneof(
  { weight: 6, arbitrary: fc.constant(0) },
  { weight: 2, arbitrary: fc.constant(1) },
  fc.integer({ min: 0, max: NAMINGS.length - 1 }),
);
const store = fc.record({
  kind: fc.constant('store' as const),
  owner,
  tier,
  chain,
  start,
  naming,
  parentNaming: naming,
});
const remove = fc.record({ kind: fc.constant('remove' as const), owner, tier, chain, start, naming });
const op: fc.Arbitrary<Op> = fc.oneof(
  { weight: 12, arbitrary: store },
  { weight: 6, arbitrary: remove },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('clear' as const),
      owner,
      tier: fc.constantFrom<Tier | 'all'>(...TIERS, 'all'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('bind' as const),
      owner,
      worker: fc.constantFrom(...WORKERS),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('removeWorker' as const),
      worker: fc.constantFrom(...WORKERS),
    }),
  },
);

const pairs = (values: readonly bigint[]): HashPairs => fromBigUint64Array(BigUint64Array.from(values));
const localsOf = (of: Chain) => of.map((i) => LOCALS[i]!);
/** Names of blocks [from, …) of a chain. */
const namesOf = (of: Chain, from: number, how: number) =>
  of.map((_, i) => NAMINGS[how]!(of.slice(0, i + 1))).slice(from);

function apply(index: PrefixIndex, step: Op): unknown {
  switch (step.kind) {
    case 'store': {
      const from = Math.min(step.start, step.chain.length);
      const parent =
        from === 0 ? null : u64FromBigInt(NAMINGS[step.parentNaming]!(step.chain.slice(0, from)));
      const external = pairs(namesOf(step.chain, from, step.naming));
      return index.store(step.owner, step.tier, parent, external, pairs(localsOf(step.chain).slice(from)));
    }
    case 'remove':
      return index.remove(step.owner, step.tier, pairs(namesOf(step.chain, step.start, step.naming)));
    case 'clear':
      return index.clear(step.owner, step.tier);
    case 'bind':
      return index.bindOwner(step.owner, step.worker);
    case 'removeWorker':
      return index.removeWorker(step.worker);
  }
}

const TIER_QUERIES: readonly (readonly Tier[])[] = [
  ['device'],
  ['disk', 'device'],
  ['host'],
  ['external', 'disk', 'host', 'device'],
  [],
];

/** Everything that a prompt can learn from an index. */
function answers(index: PrefixIndex, sequence: HashPairs, tiers: readonly Tier[]) {
  const match = index.find(sequence, sequence, tiers);
  return {
    version: match.version,
    rows: Array.from({ length: match.count }, (_, row) => [
      match.owners[row],
      ...match.depthPerTier.map((depth) => depth[row]),
    ]),
  };
}

function externals(index: PrefixIndex, of: number, sequence: HashPairs, from: number) {
  const out = new BigUint64Array(sequence.length / 2);
  const count = index.externalHashes(of, sequence, from, sequence.length / 2, out);
  return [...out.subarray(0, count)];
}

function dumpAll(index: PrefixIndex, limit: number): DumpedBlock[] {
  const rows: DumpedBlock[] = [];
  for (let cursor: number | null = 0; cursor !== null; ) {
    const page = index.dump(cursor, limit);
    expect(page.blocks.length).toBeLessThanOrEqual(limit);
    rows.push(...page.blocks);
    cursor = page.cursor;
  }
  return rows;
}

const hex = (hash: U64 | null) => (hash === null ? 'root' : u64ToBigInt(hash).toString(16));
const asText = (row: DumpedBlock) =>
  [
    row.owner,
    row.tier,
    hex(row.external),
    hex(row.sequence),
    hex(row.local),
    hex(row.parent),
    row.position,
  ].join(' ');

/** Stores a dump's rows again, by ascending position, behind whatever name their parent has. */
function restore(rows: readonly DumpedBlock[], index: PrefixIndex): void {
  const names = new Map(rows.map((row) => [`${row.owner} ${hex(row.sequence)}`, row.external]));
  for (const row of rows.toSorted((a, b) => a.position - b.position)) {
    const parent = row.parent === null ? null : names.get(`${row.owner} ${hex(row.parent)}`);
    if (parent === undefined) continue;
    index.store(
      row.owner,
      row.tier,
      parent,
      pairs([u64ToBigInt(row.external)]),
      pairs([u64ToBigInt(row.local)]),
    );
  }
}

function counts(index: PrefixIndex) {
  const { bytes: _bytes, probes: _probes, holderSets: _sets, ...rest } = index.stats();
  return rest;
}

/** What an index with cleared blocks still in place says of everything but those. */
function countsButCleared(index: PrefixIndex) {
  const { blocks: _blocks, holdings: _holdings, ownersToSweep: _owners, ...rest } = counts(index);
  return rest;
}

test('after every event the index answers as the naive one does', () => {
  fc.assert(
    fc.property(
      fc.array(op, { minLength: 1, maxLength: 40 }),
      fc.integer({ min: 1, max: 7 }),
      fc.boolean(),
      (ops, limit, countStores) => {
        const index = createPrefixIndex({ hasher, countStores });
        const naive = new NaivePrefixIndex(hasher, countStores);
        for (const step of ops) {
          expect(apply(index, step)).toEqual(apply(naive, step));
          expect(counts(index)).toEqual(counts(naive));
          if (!('chain' in step)) continue;
          const sequence = naive.chain(localsOf(step.chain));
          for (const tiers of TIER_QUERIES) {
            expect(answers(index, sequence, tiers)).toEqual(answers(naive, sequence, tiers));
          }
          expect(externals(index, step.owner, sequence, 0)).toEqual(
            externals(naive, step.owner, sequence, 0),
          );
          const from = Math.min(step.start, step.chain.length);
          expect(externals(index, step.owner, sequence, from)).toEqual(
            externals(naive, step.owner, sequence, from),
          );
        }
        const rows = dumpAll(index, limit);
        expect(rows.map(asText).sort()).toEqual(dumpAll(naive, limit).map(asText).sort());
        for (const step of ops) {
          if (!('chain' in step)) continue;
          const sequence = naive.chain(localsOf(step.chain));
          for (const other of OWNERS) {
            for (const at of step.chain.keys()) {
              const held = naive.holds(other, step.tier, sequence, at);
              expect(index.holds(other, step.tier, sequence, at)).toBe(held);
            }
          }
        }
      },
    ),
    { numRuns: 250 },
  );
});

test('a dump stored again matches the same prompts', () => {
  fc.assert(
    fc.property(fc.array(op, { minLength: 1, maxLength: 40 }), (ops) => {
      const index = createPrefixIndex({ hasher });
      const naive = new NaivePrefixIndex(hasher);
      for (const step of ops) apply(index, step);
      const copy = createPrefixIndex({ hasher });
      restore(dumpAll(index, 1000), copy);
      for (const step of ops) {
        if (!('chain' in step)) continue;
        const sequence = naive.chain(localsOf(step.chain));
        for (const tiers of TIER_QUERIES) {
          expect(answers(copy, sequence, tiers).rows).toEqual(answers(index, sequence, tiers).rows);
        }
      }
    }),
    { numRuns: 200 },
  );
});

test('an index emptied by removes, clears or worker loss holds nothing at all', () => {
  fc.assert(
    fc.property(fc.array(op, { minLength: 1, maxLength: 60 }), fc.integer({ min: 0, max: 2 }), (ops, how) => {
      const index = createPrefixIndex({ hasher });
      for (const step of ops) apply(index, step);
      if (how === 0) {
        for (const row of dumpAll(index, 1000)) {
          expect(index.remove(row.owner, row.tier, pairs([u64ToBigInt(row.external)]))).toBe(1);
        }
      }
      for (const slot of OWNERS) {
        if (how === 1) index.clear(slot, 'all');
        if (how === 2) index.bindOwner(slot, 9n);
      }
      if (how === 2) index.removeWorker(9n);
      expect(index.stats()).toMatchObject({ blocks: 0, residencies: 0, holdings: 0, holderSets: 0 });
      expect(index.dump(0, 10).blocks).toEqual([]);
    }),
    { numRuns: 200 },
  );
});

test('between the pieces of a clear nothing sees what was cleared, and events apply as if it were done', () => {
  const turn = fc.tuple(op, fc.nat(2));
  fc.assert(
    fc.property(fc.array(turn, { minLength: 1, maxLength: 50 }), fc.boolean(), (turns, countStores) => {
      const work: (() => void)[] = [];
      const later = (piece: () => void) => void work.push(piece);
      const index = createPrefixIndex({ hasher, countStores, later, sweepPlaces: 1 });
      const naive = new NaivePrefixIndex(hasher, countStores);
      for (const [step, pieces] of turns) {
        expect(apply(index, step)).toEqual(apply(naive, step));
        for (let piece = 0; piece < pieces; piece++) work.shift()?.();
        expect(countsButCleared(index)).toEqual(countsButCleared(naive));
        if (!('chain' in step)) continue;
        const sequence = naive.chain(localsOf(step.chain));
        for (const tiers of TIER_QUERIES.slice(0, 1 + pieces)) {
          expect(answers(index, sequence, tiers)).toEqual(answers(naive, sequence, tiers));
        }
        expect(externals(index, step.owner, sequence, 0)).toEqual(externals(naive, step.owner, sequence, 0));
        if (pieces !== 1) continue;
        expect(dumpAll(index, 5).map(asText).sort()).toEqual(dumpAll(naive, 5).map(asText).sort());
        const at = sequence.length / 2 - 1;
        expect(index.holds(step.owner, step.tier, sequence, at)).toBe(
          naive.holds(step.owner, step.tier, sequence, at),
        );
      }
      while (work.length > 0) work.shift()?.();
      expect(counts(index)).toEqual(counts(naive));
    }),
    { numRuns: 400 },
  );
});
