import fc from 'fast-check';
import { expect, test } from 'vitest';
import { seededRng } from '../../plugin/index.ts';
import { HolderSets, NO_HOLDERS } from './holder-sets.ts';
import { TIER_BITS } from './tier-bits.ts';

const BLOCKS = 6;
const step = fc.record({
  block: fc.nat(BLOCKS - 1),
  owner: fc.constantFrom(0, 1, 2, 3, 4, 500, 65_535),
  mask: fc.oneof(fc.constant(0), fc.constant(1), fc.integer({ min: 0, max: 15 })),
});

function holdersOf(sets: HolderSets, set: number): [number, number][] {
  const start = sets.offsetOf(set);
  return Array.from(sets.wordsOf(set).subarray(start, start + sets.sizeOf(set)), (word) => [
    word >> TIER_BITS,
    word & 15,
  ]);
}

test('blocks have the same set exactly when they have the same holders, and sets without blocks are gone', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const sets = new HolderSets();
      const ofBlock = Array.from({ length: BLOCKS }, () => NO_HOLDERS);
      const model = Array.from({ length: BLOCKS }, () => new Map<number, number>());
      for (const { block, owner, mask } of steps) {
        if ((model[block]!.get(owner) ?? 0) === mask) continue;
        ofBlock[block] = sets.move(ofBlock[block]!, owner, mask);
        if (mask === 0) model[block]!.delete(owner);
        else model[block]!.set(owner, mask);
        const said = model.map((holders) => [...holders].sort((a, b) => a[0] - b[0]));
        expect(ofBlock.map((set) => holdersOf(sets, set))).toEqual(said);
        const distinct = new Set(said.filter((holders) => holders.length > 0).map((h) => JSON.stringify(h)));
        expect(sets.count).toBe(distinct.size);
        expect(new Set(ofBlock.filter((set) => set !== NO_HOLDERS)).size).toBe(distinct.size);
      }
    }),
    { numRuns: 300 },
  );
});

test('a set of a thousand owners that come and go leaves nothing and stops growing', () => {
  const sets = new HolderSets();
  let bytes = 0;
  for (let round = 0; round < 3; round++) {
    let set = NO_HOLDERS;
    for (let owner = 999; owner >= 0; owner--) set = sets.move(set, owner, 1);
    expect(sets.sizeOf(set)).toBe(1000);
    for (let owner = 0; owner < 1000; owner++) set = sets.move(set, owner, 0);
    expect(set).toBe(NO_HOLDERS);
    expect(sets.count).toBe(0);
    if (round === 0) bytes = sets.bytes;
  }
  expect(sets.bytes).toBe(bytes);
});

test('sets whose hashes collide stay apart', () => {
  // 200,000 sets under a 32-bit hash: about five pairs of them collide.
  const rng = seededRng(1);
  const sets = new HolderSets();
  const interned = new Map<number, string>();
  const said = new Set<string>();
  for (let n = 0; n < 200_000; n++) {
    const owners = [0, 1, 2].map((i) => 3 * rng.integer(20_000) + i);
    const set = owners.reduce((from, owner) => sets.move(from, owner, 1), NO_HOLDERS);
    const name = owners.sort((a, b) => a - b).join();
    said.add(name);
    if ((interned.get(set) ?? name) !== name) expect.fail(`${name} and ${interned.get(set)} share a set`);
    interned.set(set, name);
  }
  expect(sets.count).toBe(said.size);
});

test('many distinct sets at once are all found again', () => {
  const sets = new HolderSets();
  const first = Array.from({ length: 60_000 }, (_, owner) => sets.move(NO_HOLDERS, owner, 1));
  const second = Array.from({ length: 60_000 }, (_, owner) => sets.move(NO_HOLDERS, owner, 1));
  expect(second).toEqual(first);
  expect(sets.count).toBe(60_000);
});

test('sets of thousands of owners stay apart while they grow', () => {
  const sets = new HolderSets();
  let set = NO_HOLDERS;
  for (let owner = 0; owner < 5000; owner++) set = sets.move(set, owner, 1);
  const more = Array.from({ length: 4096 }, (_, nth) => 16 * nth).reduce(
    (from, owner) => sets.move(from, owner, 2),
    NO_HOLDERS,
  );
  expect(sets.sizeOf(set)).toBe(5000);
  expect(sets.sizeOf(more)).toBe(4096);
  expect(holdersOf(sets, more).every(([owner, mask], at) => owner === at * 16 && mask === 2)).toBe(true);
  expect(sets.count).toBe(2);
});
