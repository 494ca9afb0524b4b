import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PointsmanError } from '../../plugin/index.ts';
import {
  fromBigUint64Array,
  hashAt,
  toBigUint64Array,
  u64Add,
  u64Equal,
  u64FromBigInt,
  u64ToBigInt,
} from './u64.ts';

const u64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });

describe('64-bit values', () => {
  it('go through two halves and back unchanged', () => {
    fc.assert(
      fc.property(u64, (value) => {
        expect(u64ToBigInt(u64FromBigInt(value))).toBe(value);
      }),
    );
  });

  it('take a signed value as its two’s complement', () => {
    expect(u64FromBigInt(-1n)).toEqual({ lo: 0xffffffff, hi: 0xffffffff });
    expect(u64FromBigInt(-(2n ** 63n))).toEqual({ lo: 0, hi: 0x80000000 });
    expect(u64ToBigInt({ lo: -1, hi: -2147483648 })).toBe(0x80000000ffffffffn);
  });

  it('add modulo 2⁶⁴', () => {
    fc.assert(
      fc.property(u64, u64, (a, b) => {
        const sum = u64Add(u64FromBigInt(a), u64FromBigInt(b));
        expect(u64ToBigInt(sum)).toBe(BigInt.asUintN(64, a + b));
        expect(sum).toEqual(u64FromBigInt(a + b));
      }),
    );
  });

  it('are equal when their 64 bits are', () => {
    fc.assert(
      fc.property(u64, u64, (a, b) => {
        expect(u64Equal(u64FromBigInt(a), u64FromBigInt(b))).toBe(a === b);
        expect(u64Equal(u64FromBigInt(a), u64FromBigInt(a))).toBe(true);
      }),
    );
    expect(u64Equal({ lo: 1, hi: 2 }, { lo: 1, hi: 3 })).toBe(false);
    expect(u64Equal({ lo: 1, hi: 2 }, { lo: 2, hi: 2 })).toBe(false);
  });

  it('turn from pairs into a BigUint64Array and back, as copies, from any offset', () => {
    fc.assert(
      fc.property(fc.array(u64), fc.nat(3), (values, skip) => {
        const padded = new Uint32Array(skip + 2 * values.length);
        values.forEach((value, i) => {
          const { lo, hi } = u64FromBigInt(value);
          padded.set([lo, hi], skip + 2 * i);
        });
        const pairs = padded.subarray(skip);
        const wide = toBigUint64Array(pairs);
        expect([...wide]).toEqual(values);
        const back = fromBigUint64Array(wide);
        expect(back).toEqual(pairs.slice());
        expect(values.map((_, i) => u64ToBigInt(hashAt(pairs, i)))).toEqual(values);
        wide.fill(0n);
        expect(back).toEqual(pairs.slice());
      }),
    );
  });

  it('refuse half a pair', () => {
    expect(() => toBigUint64Array(new Uint32Array(3))).toThrowError(
      new PointsmanError(
        'PM_KV_ARGUMENT',
        'a list of hashes has two entries (lo, hi) per hash, but this one has an odd length of 3',
        { details: { length: 3 } },
      ),
    );
  });
});
