// Runs of 32-bit words, handed out in power-of-two sizes and reused by size. Segments of 65,536 words are added one by one, so that
// growing copies no more than the first one, which doubles while it is alone.

const NONE = -1;
const FIRST_WORDS = 256;
/** Runs of up to 2^16 words: one word per owner slot. */
const CLASSES = 17;

/** Low bits of an offset: its place in the segment. */
export const POOL_SHIFT = 16;
const SEGMENT_WORDS = 2 ** POOL_SHIFT;
/** The place in the segment as a mask. */
export const POOL_MASK: number = SEGMENT_WORDS - 1;

/** The size class of a run of n ≥ 1 words: the smallest c with 2^c ≥ n. */
function classOf(n: number): number {
  return 32 - Math.clz32(n - 1);
}

/** Hands out runs of 1 to 65,536 words. The first word of a free run links to the next free run of its size. */
export class WordPool {
  readonly #segments: Int32Array[] = [new Int32Array(FIRST_WORDS)];
  readonly #free = new Int32Array(CLASSES).fill(NONE);
  #used = 0;
  #bytes = 4 * FIRST_WORDS;

  /** Bytes of the arrays. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The words a run at `offset` stands in, from `offset & POOL_MASK` on. Replaced when the pool grows: keep it across no `take`. */
  wordsOf(offset: number): Int32Array {
    return this.#segments[offset >>> POOL_SHIFT]!;
  }

  /** Offset of a run of at least n words. */
  take(n: number): number {
    const size = classOf(n);
    const head = this.#free[size]!;
    if (head !== NONE) {
      this.#free[size] = this.wordsOf(head)[head & POOL_MASK]!;
      return head;
    }
    const words = 2 ** size;
    // No run crosses segments: what is left of one is given out in smaller runs.
    while ((this.#used & POOL_MASK) + words > SEGMENT_WORDS) {
      const least = 31 - Math.clz32(this.#used & -this.#used);
      const offset = this.#used;
      this.#used += 2 ** least;
      this.#reserve(this.#used);
      this.give(offset, 2 ** least);
    }
    const offset = this.#used;
    this.#used += words;
    this.#reserve(this.#used);
    return offset;
  }

  /** Gives back the run that `take(n)` put at `offset`. */
  give(offset: number, n: number): void {
    const size = classOf(n);
    this.wordsOf(offset)[offset & POOL_MASK] = this.#free[size]!;
    this.#free[size] = offset;
  }

  #reserve(end: number): void {
    const first = this.#segments[0]!;
    if (end > first.length && first.length < SEGMENT_WORDS) {
      let capacity = first.length;
      while (capacity < Math.min(end, SEGMENT_WORDS)) capacity *= 2;
      const words = new Int32Array(capacity);
      words.set(first);
      this.#segments[0] = words;
      this.#bytes += words.byteLength - first.byteLength;
    }
    while (end > this.#segments.length * SEGMENT_WORDS) {
      this.#segments.push(new Int32Array(SEGMENT_WORDS));
      this.#bytes += 4 * SEGMENT_WORDS;
    }
  }
}
