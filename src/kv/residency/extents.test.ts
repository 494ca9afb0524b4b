import { expect, test } from 'vitest';
import { createReferenceHasher } from '../hashing/reference-hasher.ts';
import { EXTENT } from './extent-layout.ts';
import { Extents } from './extents.ts';
import { NO_HOLDERS } from './holder-sets.ts';

const hasher = createReferenceHasher();

/** A chain of n blocks whose contents start with `first`. */
function chain(n: number, first = 1, shared = 0) {
  const local = new Uint32Array(2 * n);
  for (let i = 0; i < n; i++) local[2 * i] = i < shared ? i + 1 : first + i;
  const sequence = new Uint32Array(2 * n);
  hasher.chain(null, local, sequence);
  return { local, sequence, n };
}

/** Stores blocks [from, to) of a chain, held by an owner; returns the last block. */
function put(
  extents: Extents,
  of: ReturnType<typeof chain>,
  from: number,
  to: number,
  before: number,
  owner = 1,
) {
  let last = before;
  for (let i = from; i < to; ) {
    const block = extents.add(of.local, of.sequence, i, last, to - i);
    const run = extents.extend(of.local, of.sequence, i, to, block);
    extents.setRun(block, run, owner, 1);
    last = block + run - 1;
    i += run;
  }
  return last;
}

const changesAt = (extents: Extents, block: number) =>
  extents.arena.heads.get(extents.arena.runOf(block), EXTENT.CHANGES);

test('blocks of a chain lie side by side, and only the first of an extent is in the table', () => {
  const extents = new Extents();
  const all = chain(200);
  put(extents, all, 0, 200, -1);
  expect(extents.firsts.count).toBe(4);
  expect(extents.live).toBe(200);
  let block = -1;
  for (let i = 0; i < 200; i++) {
    block = extents.findAfter(block, all.sequence, i);
    expect(extents.is(block, all.sequence, i)).toBe(true);
    expect(extents.positionOf(block)).toBe(i);
    expect(extents.locate(all.sequence, i)).toBe(block);
    const parent = extents.parentOf(block);
    expect(parent?.lo ?? null).toBe(i === 0 ? null : all.sequence[2 * i - 2]);
  }
});

test('a fork within an extent begins one of its own, and compares of hashes find where it leaves', () => {
  const extents = new Extents();
  const trunk = chain(60);
  const branch = chain(90, 1000, 37);
  put(extents, trunk, 0, 60, -1);
  const first = extents.find(trunk.sequence, 0);
  expect(extents.matching(first, 60, branch.sequence, 0)).toBe(37);
  put(extents, branch, 37, 90, first + 36);
  const forked = extents.findAfter(first + 36, branch.sequence, 37);
  expect(extents.arena.runOf(forked)).not.toBe(extents.arena.runOf(first));
  expect(extents.matching(forked, 53, branch.sequence, 37)).toBe(53);
  expect(extents.locate(branch.sequence, 80)).toBe(forked + 43);
  expect(extents.locate(branch.sequence, 20)).toBe(first + 20);
});

test('changes of holders along an extent are counted, also when they become equal again', () => {
  const extents = new Extents();
  const all = chain(20);
  put(extents, all, 0, 20, -1);
  const first = extents.find(all.sequence, 0);
  expect(changesAt(extents, first)).toBe(0);
  extents.setTiers(first + 7, 1, 0);
  expect(changesAt(extents, first)).toBe(2);
  extents.setTiers(first + 19, 1, 2);
  expect(changesAt(extents, first)).toBe(3);
  extents.setRun(first, 7, 5, 1);
  expect(changesAt(extents, first)).toBe(3);
  extents.setTiers(first + 7, 1, 1);
  extents.setTiers(first + 19, 1, 1);
  expect(changesAt(extents, first)).toBe(1);
  for (let i = 0; i < 7; i++) extents.setTiers(first + i, 5, 0);
  expect(changesAt(extents, first)).toBe(0);
});

test('a chain goes on in place of an end that nobody holds, and beside one that somebody does', () => {
  const extents = new Extents();
  const old = chain(12);
  put(extents, old, 0, 12, -1);
  const first = extents.find(old.sequence, 0);
  for (let i = 11; i >= 6; i--) extents.setTiers(first + i, 1, 0);
  expect(extents.holdersOf(first + 6)).toBe(NO_HOLDERS);
  const other = chain(12, 500, 6);
  expect(put(extents, other, 6, 12, first + 5)).toBe(first + 11);
  expect(extents.locate(old.sequence, 6)).toBe(-1);
  const third = chain(12, 900, 8);
  const beside = chain(9, 700, 6);
  expect(put(extents, beside, 6, 9, first + 5)).not.toBe(first + 8);
  expect(extents.locate(third.sequence, 8)).toBe(-1);
  expect(changesAt(extents, first)).toBe(0);
});

test('an extent nobody holds a block of is used again, and what lies behind it is still found', () => {
  const extents = new Extents();
  const all = chain(128);
  put(extents, all, 0, 64, -1);
  put(extents, all, 64, 128, extents.locate(all.sequence, 63));
  const { bytes } = extents;
  for (let i = 0; i < 64; i++) extents.setTiers(extents.locate(all.sequence, i), 1, 0);
  expect(extents.live).toBe(64);
  expect(extents.locate(all.sequence, 10)).toBe(-1);
  const behind = extents.locate(all.sequence, 100);
  expect(extents.positionOf(behind)).toBe(100);
  put(extents, chain(64, 5000), 0, 64, -1);
  expect(extents.bytes).toBe(bytes);
});

test('a store stops where a block is there already', () => {
  const extents = new Extents();
  const all = chain(100);
  put(extents, all, 0, 64, -1);
  put(extents, all, 64, 100, extents.locate(all.sequence, 63));
  for (let i = 0; i < 64; i++) extents.setTiers(extents.locate(all.sequence, i), 1, 0);
  const before = put(extents, all, 0, 16, -1);
  const next = extents.add(all.local, all.sequence, 16, before, 84);
  expect(16 + extents.extend(all.local, all.sequence, 16, 100, next)).toBe(64);
});
