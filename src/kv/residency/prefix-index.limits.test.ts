import { expect, test } from 'vitest';
import { PointsmanError } from '../../plugin/index.ts';
import { createReferenceHasher } from '../hashing/reference-hasher.ts';
import { createPrefixIndex } from './extent-index.ts';
import type { PrefixIndex } from './types.ts';

const hasher = createReferenceHasher();

const fresh = (maxHoldings?: number) =>
  createPrefixIndex({ hasher, ...(maxHoldings === undefined ? {} : { maxHoldings }) });

/** n hashes that start at `first`. */
function hashes(first: number, n: number): Uint32Array {
  const list = new Uint32Array(2 * n);
  for (let i = 0; i < n; i++) list[2 * i] = first + i;
  return list;
}

function error(call: () => unknown): string {
  try {
    call();
  } catch (thrown) {
    if (thrown instanceof PointsmanError) return `${thrown.code}: ${thrown.message}`;
    throw thrown;
  }
  return 'no error';
}

/** Leading blocks of the one owner found, and the table slots looked at on the way. */
function probesOf(index: PrefixIndex, local: Uint32Array): { depth: number | undefined; probes: number } {
  const sequence = new Uint32Array(local.length);
  hasher.chain(null, local, sequence);
  const before = index.stats().probes;
  const match = index.find(local, sequence, ['device']);
  return { depth: match.depthPerTier[0]![0], probes: index.stats().probes - before };
}

test('a lookup probes the table once in a while, however scattered the blocks of its chain came', () => {
  const index = fresh();
  const chains = 40;
  for (let at = 0; at < 1000; at++) {
    for (let chain = 0; chain < chains; chain++) {
      const parent = at === 0 ? null : { lo: chain * 1000 + at - 1, hi: 0 };
      index.store(chain % 4, 'device', parent, hashes(chain * 1000 + at, 1), hashes(chain * 5000 + at, 1));
    }
  }
  for (const n of [1, 10, 100, 1000]) {
    const { depth, probes } = probesOf(index, hashes(35_000, n));
    expect(depth).toBe(n);
    expect(probes).toBeLessThanOrEqual(n / 4 + 10);
  }
});

test('a lookup along blocks of one event probes the table for the first only', () => {
  const index = fresh();
  index.store(0, 'device', null, hashes(1, 1000), hashes(1, 1000));
  const { depth, probes } = probesOf(index, hashes(1, 1000));
  expect(depth).toBe(1000);
  expect(probes).toBeLessThanOrEqual(3);
});

test('every block is found again after many doublings, and the arrays stay below 60 bytes per block', () => {
  const index = fresh();
  const chains = 60;
  const length = 1000;
  for (let chain = 0; chain < chains; chain++) {
    for (let at = 0; at < length; at += 50) {
      const parent = at === 0 ? null : { lo: chain * length + at - 1, hi: 0 };
      const outcome = index.store(
        chain % 7,
        'device',
        parent,
        hashes(chain * length + at, 50),
        hashes(chain * 3 * length + at, 50),
      );
      expect(outcome).toBe('stored');
    }
  }
  const stats = index.stats();
  expect(stats).toMatchObject({ blocks: chains * length, residencies: chains * length, holderSets: 7 });
  expect(stats.bytes / stats.blocks).toBeLessThan(60);
  const sequence = new Uint32Array(2 * length);
  const out = new BigUint64Array(length);
  for (let chain = 0; chain < chains; chain++) {
    hasher.chain(null, hashes(chain * 3 * length, length), sequence);
    const match = index.find(sequence, sequence, ['device']);
    expect([match.count, match.owners[0], match.depthPerTier[0]![0]]).toEqual([1, chain % 7, length]);
    expect(index.externalHashes(chain % 7, sequence, 0, length, out)).toBe(length);
    expect([out[0], out[length - 1]]).toEqual([BigInt(chain * length), BigInt(chain * length + length - 1)]);
  }
});

test('a thousand owners of one chain are all found, each with its own depth', () => {
  const index = fresh();
  const local = hashes(1, 64);
  for (let owner = 999; owner >= 0; owner--) {
    const depth = 1 + (owner % 64);
    index.store(owner * 65, 'device', null, hashes(owner, depth), local.subarray(0, 2 * depth));
  }
  const sequence = new Uint32Array(128);
  hasher.chain(null, local, sequence);
  const match = index.find(local, sequence, ['device']);
  expect(match.count).toBe(1000);
  for (let row = 0; row < 1000; row++) {
    expect([match.owners[row], match.depthPerTier[0]![row]]).toEqual([row * 65, 1 + (row % 64)]);
  }
});

test('churn does not make the arrays grow', () => {
  const index = fresh();
  let bytes = 0;
  for (let round = 0; round < 20; round++) {
    index.store(0, 'device', null, hashes(round * 7000, 2000), hashes(round * 9000, 2000));
    if (round % 2 === 0) index.clear(0, 'all');
    else index.remove(0, 'device', hashes(round * 7000, 2000));
    expect(index.stats()).toMatchObject({ blocks: 0, residencies: 0, holdings: 0, holderSets: 0 });
    if (round === 1) bytes = index.stats().bytes;
  }
  expect(index.stats().bytes).toBeLessThanOrEqual(bytes);
});

test('a cleared owner gives the memory of its table back', () => {
  const index = fresh();
  index.store(0, 'device', null, hashes(1, 2000), hashes(1, 2000));
  index.remove(0, 'device', hashes(900_000, 20_000));
  const { bytes, probes } = index.stats();
  index.clear(0, 'all');
  expect(bytes - index.stats().bytes).toBeGreaterThan(4 * 4096);
  expect(index.stats().probes).toBeGreaterThanOrEqual(probes);
});

test('an event larger than the cap is refused whole', () => {
  const index = fresh(10);
  index.store(0, 'device', null, hashes(1, 8), hashes(1, 8));
  expect(error(() => index.store(1, 'device', null, hashes(1, 11), hashes(1, 11)))).toBe(
    'PM_KV_INDEX_FULL: the prefix index holds 8 of at most 10 engine hashes and has no room for 11 more; raise the cap or announce fewer blocks',
  );
  expect(index.stats()).toMatchObject({ blocks: 8, residencies: 8, version: 1 });
  expect(index.store(0, 'host', null, hashes(1, 8), hashes(1, 8))).toBe('stored');
  index.clear(0, 'all');
  expect(index.store(1, 'device', null, hashes(1, 10), hashes(1, 10))).toBe('stored');
});

test('owner slots beyond 65,535 are refused by every call that names one', () => {
  const index = fresh();
  const text =
    'PM_KV_ARGUMENT: owner slot 65536 is outside the prefix index, which has slots 0 to 65535; give slots of gone workers out again';
  const none = hashes(0, 0);
  expect(error(() => index.store(65_536, 'device', null, none, none))).toBe(text);
  expect(error(() => index.remove(65_536, 'device', none))).toBe(text);
  expect(error(() => index.clear(65_536, 'all'))).toBe(text);
  expect(error(() => index.bindOwner(65_536, 1n))).toBe(text);
  expect(error(() => index.externalHashes(65_536, none, 0, 0, new BigUint64Array(0)))).toBe(text);
  expect(error(() => index.holds(65_536, 'device', none, 0))).toBe(text);
  expect(error(() => index.clear(-1, 'all'))).toContain('owner slot -1 is outside');
  expect(error(() => index.clear(0.5, 'all'))).toContain('owner slot 0.5 is outside');
});

test('lists that do not fit together, ranges and pages that do not exist are refused', () => {
  const index = fresh();
  expect(error(() => index.store(0, 'device', null, hashes(1, 2), hashes(1, 3)))).toBe(
    'PM_KV_ARGUMENT: external and local describe the same blocks, but have 2 and 3 hashes; give one of each per block',
  );
  expect(error(() => index.find(hashes(1, 2), hashes(1, 1), ['device']))).toBe(
    'PM_KV_ARGUMENT: local and sequence describe the same blocks, but have 2 and 1 hashes; give one of each per block',
  );
  const odd =
    'PM_KV_ARGUMENT: a list of hashes has two entries (lo, hi) per hash, but this one has an odd length of 3';
  expect(error(() => index.store(0, 'device', null, new Uint32Array(3), new Uint32Array(3)))).toBe(odd);
  expect(error(() => index.remove(0, 'device', new Uint32Array(3)))).toBe(odd);
  expect(error(() => index.externalHashes(0, hashes(1, 4), 2, 5, new BigUint64Array(9)))).toBe(
    'PM_KV_ARGUMENT: blocks [2, 5) are no range of a chain of 4 blocks; give 0 ≤ from ≤ to ≤ blocks',
  );
  expect(error(() => index.externalHashes(0, hashes(1, 4), 0, 4, new BigUint64Array(3)))).toBe(
    'PM_KV_ARGUMENT: the answer for 4 blocks needs as many entries, but the array has 3',
  );
  expect(error(() => index.dump(-1, 5))).toBe(
    'PM_KV_ARGUMENT: -1 is no dump cursor; start with 0 and go on with the cursor of the page before',
  );
  expect(error(() => index.dump(0, 0))).toBe(
    'PM_KV_ARGUMENT: a dump page holds at least 1 block, but its limit is 0',
  );
  expect(error(() => createPrefixIndex({ hasher, sweepPlaces: 65_536 }))).toBe(
    'PM_KV_ARGUMENT: a piece of a clear can look at 1 to 65472 places, not at 65536',
  );
  expect(error(() => fresh(0))).toBe(
    'PM_KV_ARGUMENT: the prefix index can be capped at 1 to 33554431 holdings, not at 0',
  );
});
