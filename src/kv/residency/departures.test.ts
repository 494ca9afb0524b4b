// Whoever follows devices is told of exactly the blocks that leave them, whatever makes them leave.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { PointsmanError } from '../../plugin/index.ts';
import { createBlockHasher } from '../hashing/block-hasher.ts';
import type { HashPairs } from '../hashing/types.ts';
import { hashAt } from '../hashing/u64.ts';
import { createPrefixIndex } from './extent-index.ts';
import { type FollowedIndex, TIERS, type Tier } from './types.ts';

const hasher = createBlockHasher();
const OWNERS = [0, 1, 2];
const BLOCKS = 24;

/** Chains that share 0, 4, 8 or 12 blocks with the first one. */
const CHAINS = [0, 4, 8, 12].map((shared, nth) => {
  const local = new Uint32Array(2 * BLOCKS);
  for (let i = 0; i < BLOCKS; i++) local[2 * i] = i < shared || nth === 0 ? i + 1 : 1000 * nth + i;
  const sequence = new Uint32Array(local.length);
  hasher.chain(null, local, sequence);
  return { local, sequence };
});

/** Names of a chain's blocks; scheme 0 is the router's. */
function named(sequence: HashPairs, scheme: number): HashPairs {
  const names = sequence.slice();
  if (scheme > 0) for (let i = 0; i < names.length; i += 2) names[i] = (names[i]! ^ scheme) >>> 0;
  return names;
}

function keys(hashes: HashPairs): string[] {
  return Array.from({ length: hashes.length / 2 }, (_, i) => `${hashes[2 * i]} ${hashes[2 * i + 1]}`);
}

/** What lies on the device of each owner. */
function devices(index: FollowedIndex): Set<string>[] {
  return OWNERS.map((owner) => {
    const held = new Set<string>();
    for (const { sequence } of CHAINS) {
      for (const [i, key] of keys(sequence).entries())
        if (index.holds(owner, 'device', sequence, i)) held.add(key);
    }
    return held;
  });
}

const place = { owner: fc.constantFrom(...OWNERS), chain: fc.nat(3), scheme: fc.nat(2) };
const range = {
  from: fc.oneof(fc.constant(0), fc.nat(BLOCKS - 1)),
  blocks: fc.integer({ min: 1, max: BLOCKS }),
};
const tier = fc.constantFrom<Tier>('device', 'device', 'device', 'host');

const step = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('store' as const), tier, ...place, ...range }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('remove' as const), tier, ...place, ...range }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('clear' as const),
      owner: place.owner,
      tiers: fc.constantFrom<Tier | 'all'>('all', ...TIERS),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('lose' as const), owner: place.owner }) },
);

type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

function take(index: FollowedIndex, one: Step): void {
  if (one.kind === 'clear') index.clear(one.owner, one.tiers);
  else if (one.kind === 'lose') index.removeWorker(BigInt(one.owner));
  else {
    const { local, sequence } = CHAINS[one.chain]!;
    const to = Math.min(BLOCKS, one.from + one.blocks);
    const names = named(sequence, one.scheme);
    const part = names.subarray(2 * one.from, 2 * to);
    if (one.kind === 'remove') index.remove(one.owner, one.tier, part);
    else {
      const parent = one.from === 0 ? null : hashAt(names, one.from - 1);
      storeWhereRoom(() =>
        index.store(one.owner, one.tier, parent, part, local.subarray(2 * one.from, 2 * to)),
      );
    }
  }
  for (const owner of OWNERS) index.bindOwner(owner, BigInt(owner));
}

/** An index whose cap nothing can make room under refuses a store; what left before that has to be told all the same. */
function storeWhereRoom(store: () => unknown): void {
  try {
    store();
  } catch (thrown) {
    if (!(thrown instanceof PointsmanError && thrown.code === 'PM_KV_INDEX_FULL')) throw thrown;
  }
}

test('tells of every block that leaves a device, and of no other', () => {
  let evictions = 0;
  fc.assert(
    fc.property(
      fc.array(step, { minLength: 10, maxLength: 80 }),
      fc.constantFrom(40, 1000),
      fc.boolean(),
      (steps, maxHoldings, countStores) => {
        const pieces: (() => void)[] = [];
        const index = createPrefixIndex({
          hasher,
          maxHoldings,
          countStores,
          sweepPlaces: 1,
          later: (work) => void pieces.push(work),
        });
        const left = OWNERS.map(() => new Set<string>());
        const cleared = new Set<number>();
        index.follow({
          left(owner, hashes) {
            expect(hashes.length).toBeGreaterThan(0);
            for (const key of keys(hashes)) left[owner]!.add(key);
          },
          cleared: (owner) => void cleared.add(owner),
        });
        for (const one of steps) {
          const before = devices(index);
          take(index, one);
          const after = devices(index);
          for (const owner of OWNERS) {
            const gone = [...before[owner]!].filter((key) => !after[owner]!.has(key));
            if (cleared.has(owner)) expect(after[owner]!.size).toBe(0);
            else
              expect([...left[owner]!].filter((key) => !after[owner]!.has(key)).sort()).toEqual(gone.sort());
            // What is evicted for a store may be in it.
            if (one.kind === 'remove') for (const key of left[owner]!) expect(gone).toContain(key);
            left[owner]!.clear();
          }
          cleared.clear();
          pieces.shift()?.();
        }
        evictions += index.stats().evicted;
      },
    ),
  );
  expect(evictions).toBeGreaterThan(100);
});

test('tells nobody when nobody follows any more, and a block with another name is there still', () => {
  const index = createPrefixIndex({ hasher });
  const { local, sequence } = CHAINS[0]!;
  const told: number[] = [];
  index.follow({ left: (_, hashes) => void told.push(hashes.length / 2), cleared: () => void told.push(-1) });
  for (const scheme of [0, 1]) index.store(0, 'device', null, named(sequence, scheme), local);
  index.remove(0, 'device', named(sequence, 1));
  expect(told).toEqual([]);
  index.remove(0, 'device', sequence.subarray(0, 8));
  expect(told).toEqual([4]);
  index.clear(0, 'host');
  expect(told).toEqual([4]);
  index.clear(0, 'device');
  expect(told).toEqual([4, -1]);
  index.store(0, 'device', null, sequence, local);
  index.follow(null);
  index.remove(0, 'device', sequence);
  expect(told).toEqual([4, -1]);
});

test('says which blocks an owner names by its hashes, and what comes before them', () => {
  const index = createPrefixIndex({ hasher });
  const { local, sequence } = CHAINS[0]!;
  const names = named(sequence, 1);
  index.store(0, 'device', null, names, local);
  expect(index.heldChain(0, names)).toEqual({ parent: null, hashes: sequence });
  expect(index.heldChain(0, names.subarray(10, 20))).toEqual({
    parent: hashAt(sequence, 4),
    hashes: sequence.subarray(10, 20),
  });
  // Unknown ones are left out; what does not follow ends it.
  const mixed = Uint32Array.from([
    1,
    1,
    ...names.subarray(4, 8),
    2,
    2,
    ...names.subarray(8, 10),
    ...names.subarray(14, 16),
  ]);
  expect(index.heldChain(0, mixed)?.hashes).toEqual(sequence.subarray(4, 10));
  expect(index.heldChain(0, sequence)).toBeNull();
  expect(index.heldChain(1, names)).toBeNull();
});
