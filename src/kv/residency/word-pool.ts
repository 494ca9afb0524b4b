// Runs of 32-bit words in one Int32Array, handed out in power-of-two sizes and reused by size. Grows by doubling.

const NONE = -1;
const FIRST_WORDS = 256;
/** Runs of up to 2^16 words: one word per owner slot. */
const CLASSES = 17;

/** The size class of a run of n ≥ 1 words: the smallest c with 2^c ≥ n. */
function classOf(n: number): number {
  return 32 - Math.clz32(n - 1);
}

/** Hands out runs of 1 to 65,536 words. The first word of a free run links to the next free run of its size. */
export class WordPool {
  /** All words; replaced when the pool grows, so never keep it across a `take`. */
  words = new Int32Array(FIRST_WORDS);
  readonly #free = new Int32Array(CLASSES).fill(NONE);
  #used = 0;

  /** Bytes of the array. */
  get bytes(): number {
    return this.words.byteLength;
  }

  /** Offset of a run of at least n words. */
  take(n: number): number {
    const size = classOf(n);
    const head = this.#free[size]!;
    if (head !== NONE) {
      this.#free[size] = this.words[head]!;
      return head;
    }
    const offset = this.#used;
    const end = offset + 2 ** size;
    if (end > this.words.length) {
      let capacity = this.words.length;
      while (capacity < end) capacity *= 2;
      const words = new Int32Array(capacity);
      words.set(this.words);
      this.words = words;
    }
    this.#used = end;
    return offset;
  }

  /** Gives back the run that `take(n)` put at `offset`. */
  give(offset: number, n: number): void {
    const size = classOf(n);
    this.words[offset] = this.#free[size]!;
    this.#free[size] = offset;
  }
}
