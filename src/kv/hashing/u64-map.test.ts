import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PointsmanError } from '../../plugin/index.ts';
import { u64FromBigInt } from './u64.ts';
import { U64Map } from './u64-map.ts';

/** Few distinct keys, so that random operations meet the same ones again; signed, unsigned and extreme halves. */
const half = fc.oneof(
  fc.integer({ min: 0, max: 7 }),
  fc.constantFrom(0x7fffffff, 0x80000000, 0xffffffff),
  fc.integer({ min: 0, max: 0xffffffff }),
);
const key = fc.tuple(half, fc.oneof(fc.constant(0), half));
const operation = fc.oneof(
  { weight: 250, arbitrary: fc.tuple(fc.constant('set' as const), key, fc.nat(2 ** 31 - 1)) },
  { weight: 200, arbitrary: fc.tuple(fc.constant('delete' as const), key, fc.constant(0)) },
  { weight: 100, arbitrary: fc.tuple(fc.constant('get' as const), key, fc.constant(0)) },
  { weight: 1, arbitrary: fc.tuple(fc.constant('clear' as const), key, fc.constant(0)) },
);

const big = (lo: number, hi: number): bigint => (BigInt(hi) << 32n) | BigInt(lo);

function contents(map: U64Map): Map<bigint, number> {
  const found = new Map<bigint, number>();
  map.forEach((lo, hi, value) => {
    expect(found.has(big(lo, hi))).toBe(false);
    found.set(big(lo, hi), value);
  });
  return found;
}

describe('U64Map', () => {
  it('answers every stream of operations as a Map of bigint does', () => {
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 400, size: 'max' }), (operations) => {
        const map = new U64Map();
        const model = new Map<bigint, number>();
        const answers: number[] = [];
        const expected: number[] = [];
        for (const [kind, [lo, hi], value] of operations) {
          const id = big(lo, hi);
          if (kind === 'clear') {
            map.clear();
            model.clear();
          } else {
            answers.push(
              kind === 'set'
                ? map.set(lo, hi, value)
                : kind === 'delete'
                  ? map.delete(lo, hi)
                  : map.get(lo, hi),
            );
            expected.push(model.get(id) ?? -1);
            if (kind === 'set') model.set(id, value);
            if (kind === 'delete') model.delete(id);
          }
          answers.push(map.size, map.size <= map.capacity * 0.6 ? 1 : 0, map.has(lo, hi) ? 1 : 0);
          expected.push(model.size, 1, model.has(id) ? 1 : 0);
        }
        expect(answers).toEqual(expected);
        expect(contents(map)).toEqual(model);
      }),
      { numRuns: 200 },
    );
  });

  it('keeps all other keys reachable when keys are deleted from full runs', () => {
    const map = new U64Map();
    // 9 entries are the most a 16-slot table takes, so every deletion has a run to repair.
    for (let round = 0; round < 300; round += 1) {
      const keys = Array.from({ length: 9 }, (_, i) => Math.imul(round * 9 + i + 1, 0x9e3779b1) >>> 0);
      keys.forEach((lo, i) => void map.set(lo, i & 1, i));
      expect(map.capacity).toBe(16);
      for (let gone = 0; gone < keys.length; gone += 1) {
        expect(map.delete(keys[gone]!, gone & 1)).toBe(gone);
        const values = keys.map((lo, i) => map.get(lo, i & 1));
        expect(values).toEqual(keys.map((_, i) => (i <= gone ? -1 : i)));
      }
    }
  });

  it('takes signed and unsigned halves as the same key', () => {
    const map = new U64Map();
    map.set(0xffffffff, 0x80000000, 5);
    expect(map.get(-1, -2147483648)).toBe(5);
    expect(contents(map)).toEqual(new Map([[0x80000000_ffffffffn, 5]]));
    expect(map.delete(-1, -2147483648)).toBe(5);
    expect(map.size).toBe(0);
  });

  it('holds the key zero and the value zero like any other', () => {
    const map = new U64Map();
    expect(map.get(0, 0)).toBe(-1);
    expect(map.set(0, 0, 0)).toBe(-1);
    expect(map.get(0, 0)).toBe(0);
    expect(map.set(0, 0, 7)).toBe(0);
    expect(map.size).toBe(1);
  });

  it.each([
    ['small ids in lo', (i: number) => [i, 0]],
    ['small ids in hi', (i: number) => [0, i]],
    ['ids in steps of 4096', (i: number) => [i << 12, 0]],
    ['ids above 32 bits in steps of 65536', (i: number) => [0, i << 16]],
    ['the same id in both halves', (i: number) => [i, i]],
    ['mixed 64-bit ids', (i: number) => [Math.imul(i, 0x9e3779b1), Math.imul(i ^ 0x5bd1e995, 0x85ebca6b)]],
  ])('does not cluster: %s', (_name, keyOf) => {
    const count = 32_768;
    const map = new U64Map();
    for (let i = 0; i < count; i += 1) map.set(keyOf(i)[0]!, keyOf(i)[1]!, i);
    expect(map.size).toBe(count);
    const before = map.probes;
    let wrong = 0;
    for (let i = 0; i < count; i += 1) if (map.get(keyOf(i)[0]!, keyOf(i)[1]!) !== i) wrong += 1;
    expect(wrong).toBe(0);
    // Linear probing at load 0.5 expects 1.5 probes per hit (Knuth, The Art of Computer Programming 3, section 6.4).
    expect((map.probes - before) / count).toBeLessThan(2);
  });

  it('counts one probe for a key alone in the table', () => {
    const map = new U64Map();
    map.set(9, 9, 1);
    const before = map.probes;
    map.get(9, 9);
    expect(map.probes - before).toBe(1);
  });

  it('grows at load 0.6, and makes room at once for an expected number of entries', () => {
    const map = new U64Map();
    for (let i = 0; i < 9; i += 1) map.set(i, 0, i);
    expect(map.capacity).toBe(16);
    map.set(9, 0, 9);
    expect(map.capacity).toBe(32);
    expect(map.bytes).toBe(32 * 12);

    const roomy = new U64Map(1000);
    const capacity = roomy.capacity;
    expect(capacity).toBe(2048);
    for (let i = 0; i < 1000; i += 1) roomy.set(i, i, i);
    expect(roomy.capacity).toBe(capacity);
  });

  it('gives the memory of a grown table back when cleared', () => {
    const map = new U64Map();
    for (let i = 0; i < 1000; i += 1) map.set(i, 0, i);
    map.clear();
    expect([map.size, map.capacity, map.get(5, 0)]).toEqual([0, 16, -1]);
    map.set(5, 0, 1);
    map.clear();
    expect([map.size, map.get(5, 0)]).toEqual([0, -1]);
  });

  it.each([-1, 1.5, 2 ** 31, Number.NaN])('refuses the value %d and stays as it was', (value) => {
    const map = new U64Map();
    map.set(1, 1, 1);
    expect(() => map.set(2, 2, value)).toThrowError(
      new PointsmanError('PM_KV_ARGUMENT', `a map value is an integer from 0 to 2147483647, not ${value}`, {
        details: { value },
      }),
    );
    expect(map.size).toBe(1);
  });

  it('refuses room for more entries than the largest table holds', () => {
    expect(() => new U64Map(2 ** 27)).toThrowError(
      new PointsmanError('PM_KV_TABLE_FULL', 'a hash table holds at most 80530636 entries and is full', {
        details: { limit: 80530636 },
      }),
    );
  });

  it('holds keys made from bigints', () => {
    const map = new U64Map();
    const { lo, hi } = u64FromBigInt(0xdeadbeef_cafebaben);
    map.set(lo, hi, 3);
    expect(map.get(0xcafebabe, 0xdeadbeef)).toBe(3);
  });
});
