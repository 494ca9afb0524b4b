// Conversions of 64-bit values at the borders: pairs of u32 inside, bigint and BigUint64Array outside.
// An array of pairs and a BigUint64Array are the same bytes on a little-endian machine, which all supported ones are.
import { PointsmanError } from '../../plugin/index.ts';
import type { HashPairs, U64 } from './types.ts';

if (new Uint8Array(Uint32Array.of(1).buffer)[0] !== 1) {
  throw new PointsmanError(
    'PM_KV_BIG_ENDIAN',
    'block hashing needs a little-endian machine, and this one is big-endian; run Pointsman on x64 or arm64',
  );
}

/** The low 64 bits of `value` (a negative one in two's complement) as two u32. */
export function u64FromBigInt(value: bigint): U64 {
  return { lo: Number(value & 0xffffffffn), hi: Number((value >> 32n) & 0xffffffffn) };
}

/** The value in [0, 2⁶⁴). */
export function u64ToBigInt(value: U64): bigint {
  return (BigInt(value.hi >>> 0) << 32n) | BigInt(value.lo >>> 0);
}

/** Whether two values have the same 64 bits. */
export function u64Equal(a: U64, b: U64): boolean {
  return ((a.lo ^ b.lo) | (a.hi ^ b.hi)) === 0;
}

/** The sum modulo 2⁶⁴. */
export function u64Add(a: U64, b: U64): U64 {
  const lo = (a.lo >>> 0) + (b.lo >>> 0);
  return { lo: lo >>> 0, hi: (a.hi + b.hi + (lo > 0xffffffff ? 1 : 0)) >>> 0 };
}

/** The hash at `index` of a list of pairs. */
export function hashAt(pairs: HashPairs, index: number): U64 {
  return { lo: pairs[2 * index]!, hi: pairs[2 * index + 1]! };
}

/**
 * A copy of the hashes as a BigUint64Array.
 * @throws PM_KV_ARGUMENT when the length is odd.
 */
export function toBigUint64Array(pairs: HashPairs): BigUint64Array {
  requireWholePairs(pairs);
  const copy = new BigUint64Array(pairs.length / 2);
  new Uint32Array(copy.buffer).set(pairs);
  return copy;
}

/** A copy of the values as interleaved (lo, hi) pairs. */
export function fromBigUint64Array(values: BigUint64Array): HashPairs {
  return new Uint32Array(values.buffer, values.byteOffset, 2 * values.length).slice();
}

/**
 * Refuses a list that ends in half a pair.
 * @throws PM_KV_ARGUMENT when the length is odd.
 */
export function requireWholePairs(pairs: HashPairs): void {
  if (pairs.length % 2 === 0) return;
  throw new PointsmanError(
    'PM_KV_ARGUMENT',
    `a list of hashes has two entries (lo, hi) per hash, but this one has an odd length of ${pairs.length}`,
    { details: { length: pairs.length } },
  );
}
