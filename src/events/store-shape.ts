// Whether a store is sound in itself.
import { type HashPairs, type U64, U64Map } from '../kv/index.ts';

/** Up to so many hashes, comparing each with each costs less than a table. */
const FEW = 8;

/** Whether a list of hashes has one twice or has the parent's. */
export function repeatsHash(parent: U64 | null, hashes: HashPairs): boolean {
  const blocks = hashes.length / 2;
  if (blocks > FEW) {
    const seen = new U64Map(blocks + 1);
    if (parent !== null) seen.set(parent.lo, parent.hi, 0);
    for (let at = 0; at < hashes.length; at += 2) {
      if (seen.set(hashes[at]!, hashes[at + 1]!, 0) >= 0) return true;
    }
    return false;
  }
  for (let at = 0; at < hashes.length; at += 2) {
    const lo = hashes[at]!;
    const hi = hashes[at + 1]!;
    if (parent !== null && parent.lo === lo && parent.hi === hi) return true;
    for (let other = 0; other < at; other += 2) {
      if (hashes[other] === lo && hashes[other + 1] === hi) return true;
    }
  }
  return false;
}
