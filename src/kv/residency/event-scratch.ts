// Reused arrays of one store event: its sequence hashes, and the check for engine hashes that repeat. They grow to the longest
// event seen.
import type { HashPairs, U64 } from '../hashing/types.ts';
import { mixPair } from './pair-mix.ts';

/** Room for one event at a time. */
export class EventScratch {
  #sequence = new Uint32Array(0);
  #seen = new Int32Array(16);

  /** Bytes of all arrays. */
  get bytes(): number {
    return this.#sequence.buffer.byteLength + this.#seen.byteLength;
  }

  /** An array for exactly `blocks` sequence hashes, with old contents; reused by the next call. */
  sequence(blocks: number): Uint32Array {
    if (this.#sequence.length !== 2 * blocks) {
      const buffer = this.#sequence.buffer;
      this.#sequence =
        buffer.byteLength >= 8 * blocks
          ? new Uint32Array(buffer, 0, 2 * blocks)
          : new Uint32Array(2 * blocks);
    }
    return this.#sequence;
  }

  /** Whether a list of hashes has one twice or has the parent's. */
  repeats(parent: U64 | null, hashes: HashPairs): boolean {
    // Halves are unsigned, so −1 matches none.
    const parentLo = parent === null ? -1 : parent.lo >>> 0;
    const parentHi = parent === null ? -1 : parent.hi >>> 0;
    const blocks = hashes.length >> 1;
    let size = 16;
    while (size < 2 * blocks) size *= 2;
    if (this.#seen.length < size) this.#seen = new Int32Array(size);
    const seen = this.#seen;
    seen.fill(0, 0, size);
    for (let i = 0; i < blocks; i++) {
      const lo = hashes[2 * i]!;
      const hi = hashes[2 * i + 1]!;
      if (lo === parentLo && hi === parentHi) return true;
      let at = mixPair(lo | 0, hi | 0) & (size - 1);
      for (let other = seen[at]!; other !== 0; other = seen[at]!) {
        if (hashes[2 * other - 2] === lo && hashes[2 * other - 1] === hi) return true;
        at = (at + 1) & (size - 1);
      }
      seen[at] = i + 1;
    }
    return false;
  }
}
