// Reused arrays of one event: the mixed hashes of its engine hashes, its sequence hashes, and the check for engine hashes that repeat.
// They grow to the longest event seen.
import type { HashPairs, U64 } from '../hashing/types.ts';
import { mixPairs } from './pair-mix.ts';

/** Marks of one event's engine hashes are told from those of earlier ones by being larger; beyond this they start anew. */
const MOST_MARK = 2 ** 30;

/** Room for one event at a time. */
export class EventScratch {
  #sequence = new Uint32Array(0);
  #mixes = new Int32Array(16);
  #seen = new Int32Array(64);
  /** The mark of the event's first engine hash. */
  #mark = 1;
  readonly #mostMark: number;

  /** @param mostMark the mark beyond which marks start anew; less than the default only in tests. */
  constructor(mostMark: number = MOST_MARK) {
    this.#mostMark = mostMark;
  }

  /** Bytes of all arrays. */
  get bytes(): number {
    return this.#sequence.buffer.byteLength + this.#mixes.byteLength + this.#seen.byteLength;
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

  /** The mixed hash of each of a list of hashes, in an array that is not shorter; reused by the next call. */
  mix(hashes: HashPairs): Int32Array {
    const blocks = hashes.length >> 1;
    if (this.#mixes.length < blocks) this.#mixes = new Int32Array(2 * blocks);
    mixPairs(hashes, 0, blocks, this.#mixes);
    return this.#mixes;
  }

  /** Whether a list of hashes, with these mixed hashes, has one twice or has the parent's. */
  repeats(parent: U64 | null, hashes: HashPairs, mixes: Int32Array): boolean {
    // Halves are unsigned, so −1 matches none.
    const parentLo = parent === null ? -1 : parent.lo >>> 0;
    const parentHi = parent === null ? -1 : parent.hi >>> 0;
    const blocks = hashes.length >> 1;
    let size = 64;
    while (size < 2 * blocks) size *= 2;
    if (this.#seen.length < size) this.#seen = new Int32Array(size);
    const seen = this.#seen;
    if (this.#mark > this.#mostMark) {
      seen.fill(0);
      this.#mark = 1;
    }
    const mark = this.#mark;
    this.#mark = mark + blocks;
    for (let i = 0; i < blocks; i++) {
      const lo = hashes[2 * i]!;
      const hi = hashes[2 * i + 1]!;
      if (lo === parentLo && hi === parentHi) return true;
      let at = mixes[i]! & (size - 1);
      for (let other = seen[at]! - mark; other >= 0; other = seen[at]! - mark) {
        if (hashes[2 * other] === lo && hashes[2 * other + 1] === hi) return true;
        at = (at + 1) & (size - 1);
      }
      seen[at] = mark + i;
    }
    return false;
  }
}
