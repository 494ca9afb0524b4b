// Spreads a 64-bit key, given as two signed 32-bit halves, over 32 bits. Engine hashes may be small counters and (block, owner)
// keys always are, so the halves are mixed even though router hashes are uniform already.

/** Mixed hash of a pair, signed 32-bit; the constants are the odd multipliers of MurmurHash3 and of the golden ratio. */
export function mixPair(lo: number, hi: number): number {
  let h = Math.imul(lo ^ Math.imul(hi, 0x9e3779b1), 0x85ebca6b);
  h ^= h >>> 15;
  h = Math.imul(h, 0xc2b2ae35);
  return h ^ (h >>> 13);
}

/** Writes the mixed hashes of `count` pairs of a list (lo, hi) from `from` on to `out`. */
export function mixPairs(pairs: Uint32Array, from: number, count: number, out: Int32Array): void {
  for (let i = 0; i < count; i++)
    out[i] = mixPair(pairs[2 * (from + i)]! | 0, pairs[2 * (from + i) + 1]! | 0);
}
