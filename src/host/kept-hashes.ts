// Memory for the hash lists that the host keeps of what policies return. A typed array with memory of its own costs a list of 16 hashes
// more than everything else about it, and the collector as much again; short lists therefore lie in slabs. No policy gets to see one.

/** Hashes in a slab, which lives as long as any list in it: what one kept list can hold on to. */
const SLAB_HASHES = 1024;
/** The longest list that lies in one; longer ones are worth memory of their own. */
const MOST_SHARED = 128;

let slab = new ArrayBuffer(0);
/** Hashes that the slab still takes. */
let left = 0;

/** How a list is kept. */
export type KeepHashes = (hashes: BigUint64Array, count: number) => BigUint64Array;

/**
 * A copy in memory that other lists of the host share: for what stays on this thread, as a message takes the whole slab along.
 * @param count hashes that are really there
 * @throws TypeError or RangeError for what only poses as such an array, or has more.
 */
export function keepTogether(hashes: BigUint64Array, count: number): BigUint64Array {
  if (count > MOST_SHARED) return keepAlone(hashes);
  // An empty list needs a slab as well: no view may begin behind the end of its memory.
  if (count > left || slab.byteLength === 0) {
    slab = new ArrayBuffer(8 * SLAB_HASHES);
    left = SLAB_HASHES;
  }
  const kept = new BigUint64Array(slab, 8 * (SLAB_HASHES - left), count);
  kept.set(hashes);
  left -= count;
  return kept;
}

/** A copy in memory of its own. */
export function keepAlone(hashes: BigUint64Array): BigUint64Array {
  // Through the constructor: a subclass could make its own `slice` return memory it keeps.
  return new BigUint64Array(hashes);
}
