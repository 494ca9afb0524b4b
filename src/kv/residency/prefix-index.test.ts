import { expect, test } from 'vitest';
import { createReferenceHasher } from '../hashing/reference-hasher.ts';
import { fromBigUint64Array, u64FromBigInt, u64ToBigInt } from '../hashing/u64.ts';
import { createPrefixIndex } from './extent-index.ts';
import { type PrefixIndex, TIERS, type Tier } from './types.ts';

const hasher = createReferenceHasher();

const pairs = (...values: bigint[]) => fromBigUint64Array(BigUint64Array.from(values));
const chain = (...locals: bigint[]) => {
  const sequence = new Uint32Array(2 * locals.length);
  hasher.chain(null, pairs(...locals), sequence);
  return sequence;
};
const fresh = () => createPrefixIndex({ hasher });

/** Rows as owner → [device, host, disk, external]. */
function depths(index: PrefixIndex, locals: readonly bigint[], tiers: readonly Tier[] = TIERS) {
  const match = index.find(pairs(...locals), chain(...locals), tiers);
  return Object.fromEntries(
    Array.from({ length: match.count }, (_, row) => [
      match.owners[row],
      match.depthPerTier.map((depth) => depth[row]),
    ]),
  );
}

const ABC = [1n, 2n, 3n] as const;
const NAMES = pairs(101n, 102n, 103n);

test('a prompt finds the owners of its leading blocks and how many they have', () => {
  const index = fresh();
  expect(index.store(7, 'device', null, NAMES, pairs(...ABC))).toBe('stored');
  expect(index.store(2, 'device', null, pairs(901n), pairs(1n))).toBe('stored');
  expect(depths(index, [1n, 2n, 3n, 4n])).toEqual({ 7: [3, 0, 0, 0], 2: [1, 0, 0, 0] });
  expect(depths(index, [1n, 2n, 9n])).toEqual({ 7: [2, 0, 0, 0], 2: [1, 0, 0, 0] });
  expect(depths(index, [2n, 3n])).toEqual({});
  expect(depths(index, [])).toEqual({});
});

test('rows ascend by owner and the arrays are reused', () => {
  const index = fresh();
  for (const owner of [9, 3, 5]) index.store(owner, 'device', null, NAMES, pairs(...ABC));
  const first = index.find(pairs(...ABC), chain(...ABC), ['device']);
  expect([...first.owners.subarray(0, first.count)]).toEqual([3, 5, 9]);
  const { owners } = first;
  const second = index.find(pairs(...ABC), chain(...ABC), ['device']);
  expect(second.owners).toBe(owners);
  expect(second.version).toBe(3);
});

test('a removed middle block hides the tail until it comes back', () => {
  const index = fresh();
  index.store(0, 'device', null, NAMES, pairs(...ABC));
  expect(index.remove(0, 'device', pairs(102n))).toBe(1);
  expect(depths(index, ABC)).toEqual({ 0: [1, 0, 0, 0] });
  expect(index.store(0, 'device', u64FromBigInt(101n), pairs(102n), pairs(2n))).toBe('stored');
  expect(depths(index, ABC)).toEqual({ 0: [3, 0, 0, 0] });
});

test('each tier continues where the nearer ones ended, and unasked tiers count for nothing', () => {
  const index = fresh();
  const locals = [1n, 2n, 3n, 4n, 5n];
  const names = [11n, 12n, 13n, 14n, 15n];
  index.store(0, 'host', null, pairs(...names), pairs(...locals));
  index.store(0, 'device', null, pairs(11n, 12n), pairs(1n, 2n));
  index.store(0, 'disk', u64FromBigInt(13n), pairs(14n, 15n), pairs(4n, 5n));
  index.remove(0, 'host', pairs(14n));
  expect(depths(index, locals)).toEqual({ 0: [2, 1, 2, 0] });
  expect(depths(index, locals, ['device'])).toEqual({ 0: [2, 0, 0, 0] });
  expect(depths(index, locals, ['host'])).toEqual({ 0: [0, 3, 0, 0] });
  expect(depths(index, locals, ['disk', 'device'])).toEqual({ 0: [2, 0, 0, 0] });
  expect(depths(index, locals, ['disk'])).toEqual({});
  expect(depths(index, locals, [])).toEqual({});
});

test('a child of an unknown parent is not indexed anywhere', () => {
  const index = fresh();
  index.store(1, 'device', null, pairs(101n), pairs(1n));
  expect(index.store(0, 'device', u64FromBigInt(101n), pairs(102n), pairs(2n))).toBe('unknown-parent');
  expect(depths(index, [2n])).toEqual({});
  expect(index.stats()).toMatchObject({ residencies: 1, unknownParents: 1, version: 1 });
});

test('the parent may lie on another tier of the same owner', () => {
  const index = fresh();
  index.store(0, 'host', null, pairs(101n), pairs(1n));
  expect(index.store(0, 'device', u64FromBigInt(101n), pairs(102n), pairs(2n))).toBe('stored');
  expect(depths(index, [1n, 2n])).toEqual({ 0: [0, 1, 0, 0] });
});

test('a store that names its parent or a block twice changes nothing', () => {
  const index = fresh();
  index.store(0, 'device', null, pairs(101n), pairs(1n));
  expect(index.store(0, 'device', u64FromBigInt(101n), pairs(5n, 101n), pairs(2n, 3n))).toBe(
    'self-reference',
  );
  expect(index.store(0, 'device', null, pairs(5n, 6n, 5n), pairs(2n, 3n, 4n))).toBe('self-reference');
  expect(index.stats()).toMatchObject({ residencies: 1, selfReferences: 2, version: 1 });
});

test('a second store of a block is no second copy: one remove takes it away', () => {
  const index = fresh();
  index.store(0, 'device', null, NAMES, pairs(...ABC));
  expect(index.store(0, 'device', null, NAMES, pairs(...ABC))).toBe('duplicate');
  expect(index.stats()).toMatchObject({ duplicateStores: 3, version: 1 });
  index.remove(0, 'device', pairs(101n));
  expect(depths(index, ABC)).toEqual({});
});

test('a store that is new in part is stored, and its known blocks are counted as duplicates', () => {
  const index = fresh();
  index.store(0, 'device', null, pairs(101n), pairs(1n));
  expect(index.store(0, 'device', null, NAMES, pairs(...ABC))).toBe('stored');
  expect(index.stats()).toMatchObject({ residencies: 3, duplicateStores: 1 });
});

test('a known engine hash keeps its meaning, and a store that gives it another is dropped whole', () => {
  const index = fresh();
  index.store(0, 'device', null, NAMES, pairs(...ABC));
  expect(index.store(0, 'device', null, pairs(200n, 103n), pairs(8n, 9n))).toBe('duplicate');
  expect(index.store(0, 'host', null, pairs(103n), pairs(3n))).toBe('duplicate');
  expect(index.stats()).toMatchObject({
    residencies: 3,
    conflictingStores: 2,
    duplicateStores: 0,
    version: 1,
  });
  expect(depths(index, [8n])).toEqual({});
  expect(depths(index, ABC)).toEqual({ 0: [3, 0, 0, 0] });
});

test('removing goes on past hashes the owner does not hold there', () => {
  const index = fresh();
  index.store(0, 'device', null, NAMES, pairs(...ABC));
  index.store(0, 'host', null, pairs(101n), pairs(1n));
  expect(index.remove(0, 'device', pairs(999n, 103n, 103n, 102n))).toBe(2);
  expect(index.remove(0, 'host', pairs(102n))).toBe(0);
  expect(index.remove(5, 'device', pairs(101n))).toBe(0);
  expect(index.stats()).toMatchObject({ residencies: 2, unknownRemoves: 4, version: 3 });
});

test('one content under two engine hashes stays until the last is removed', () => {
  const index = fresh();
  index.store(0, 'device', null, pairs(101n), pairs(1n));
  expect(index.store(0, 'device', null, pairs(501n), pairs(1n))).toBe('stored');
  expect(index.stats()).toMatchObject({ blocks: 1, residencies: 1, holdings: 2 });
  const out = new BigUint64Array(1);
  index.externalHashes(0, chain(1n), 0, 1, out);
  expect(out[0]).toBe(501n);
  index.remove(0, 'device', pairs(501n));
  expect(depths(index, [1n])).toEqual({ 0: [1, 0, 0, 0] });
  index.externalHashes(0, chain(1n), 0, 1, out);
  expect(out[0]).toBe(101n);
  index.remove(0, 'device', pairs(101n));
  expect(index.stats()).toMatchObject({ blocks: 0, residencies: 0, holdings: 0 });
});

test('engines that name the same content differently share its blocks, and each keeps its own names', () => {
  const index = fresh();
  index.store(0, 'device', null, NAMES, pairs(...ABC));
  index.store(1, 'device', null, pairs(0n, 2n ** 64n - 1n, 101n), pairs(...ABC));
  expect(index.stats()).toMatchObject({ blocks: 3, residencies: 6 });
  const out = new BigUint64Array(3);
  expect(index.externalHashes(1, chain(...ABC), 0, 3, out)).toBe(3);
  expect([...out]).toEqual([0n, 2n ** 64n - 1n, 101n]);
  index.remove(1, 'device', pairs(2n ** 64n - 1n));
  expect(index.externalHashes(1, chain(...ABC), 0, 3, out)).toBe(1);
  expect(index.externalHashes(1, chain(...ABC), 2, 3, out)).toBe(1);
  expect(out[0]).toBe(101n);
});

test('a clear is scoped to its owner and tier', () => {
  const index = fresh();
  for (const owner of [0, 1]) {
    for (const tier of ['device', 'host'] as const) index.store(owner, tier, null, NAMES, pairs(...ABC));
  }
  index.clear(0, 'device');
  expect(depths(index, ABC)).toEqual({ 0: [0, 3, 0, 0], 1: [3, 0, 0, 0] });
  index.clear(0, 'all');
  expect(depths(index, ABC)).toEqual({ 1: [3, 0, 0, 0] });
  const { version } = index.stats();
  index.clear(0, 'all');
  expect(index.stats().version).toBe(version);
});

test('a lost worker takes all its slots with it, and only those', () => {
  const index = fresh();
  index.bindOwner(0, 77n);
  index.bindOwner(1, 77n);
  index.bindOwner(2, 78n);
  for (const owner of [0, 1, 2]) index.store(owner, 'device', null, NAMES, pairs(...ABC));
  index.removeWorker(77n);
  expect(depths(index, ABC)).toEqual({ 2: [3, 0, 0, 0] });
  index.store(0, 'device', null, NAMES, pairs(...ABC));
  index.removeWorker(77n);
  expect(depths(index, ABC)).toEqual({ 0: [3, 0, 0, 0], 2: [3, 0, 0, 0] });
});

test('a slot given to another worker starts empty', () => {
  const index = fresh();
  index.store(0, 'device', null, NAMES, pairs(...ABC));
  index.bindOwner(0, 77n);
  index.bindOwner(0, 77n);
  expect(index.stats().residencies).toBe(3);
  index.bindOwner(0, 78n);
  expect(index.stats().residencies).toBe(0);
});

test('a slot that went to another worker is no longer the first one’s to lose', () => {
  const index = fresh();
  index.bindOwner(0, 77n);
  index.bindOwner(0, 78n);
  index.store(0, 'device', null, NAMES, pairs(...ABC));
  index.removeWorker(77n);
  expect(index.stats().residencies).toBe(3);
  index.removeWorker(78n);
  expect(index.stats().residencies).toBe(0);
});

test('a slot whose worker was lost keeps what is stored before it is bound again', () => {
  const index = fresh();
  index.bindOwner(0, 77n);
  index.removeWorker(77n);
  index.store(0, 'device', null, NAMES, pairs(...ABC));
  index.bindOwner(0, 78n);
  expect(index.stats().residencies).toBe(3);
});

test('a dump names owner, tier, hashes, parent and position of each block, page by page', () => {
  const index = fresh();
  index.store(4, 'device', null, pairs(101n, 102n), pairs(1n, 2n));
  index.store(4, 'host', null, pairs(101n), pairs(1n));
  const [a, b] = [chain(1n), chain(1n, 2n)].map((c) => ({ lo: c.at(-2)!, hi: c.at(-1)! }));
  const row = {
    owner: 4,
    tier: 'device',
    external: { lo: 101, hi: 0 },
    sequence: a,
    local: { lo: 1, hi: 0 },
  };
  const first = index.dump(0, 2);
  expect(first.blocks).toEqual([
    { ...row, parent: null, position: 0 },
    { ...row, tier: 'host', parent: null, position: 0 },
  ]);
  expect(first.cursor).not.toBeNull();
  expect(index.dump(first.cursor!, 2)).toEqual({
    blocks: [
      { ...row, external: { lo: 102, hi: 0 }, sequence: b, local: { lo: 2, hi: 0 }, parent: a, position: 1 },
    ],
    cursor: null,
  });
});

test('a block behind a parent that is gone keeps the name of its parent', () => {
  const index = fresh();
  index.store(0, 'device', null, pairs(101n, 102n), pairs(1n, 2n));
  index.remove(0, 'device', pairs(101n));
  index.store(0, 'device', null, pairs(301n), pairs(3n));
  const tail = index.dump(0, 10).blocks.find((block) => block.position === 1);
  expect(u64ToBigInt(tail!.parent!)).toBe(1n);
});
