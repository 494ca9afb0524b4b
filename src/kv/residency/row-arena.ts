// Fixed-width rows of 32-bit words in one Int32Array, addressed by a dense id. Given-back rows are reused, the array grows by
// doubling. Words are signed so that every value passes between functions as a small integer, never as a boxed number.

const NONE = -1;
const FIRST_CAPACITY = 256;

/** Most rows of an arena: ids must fit the 25 bits a table slot has for them. */
export const MAX_ROWS = 2 ** 25 - 1;

/** Rows of `stride` words. Word 0 of a free row links to the next free one. */
export class RowArena {
  /** Words per row. */
  readonly stride: number;
  /** All rows; replaced when the arena grows, so never keep it across a `reserve` or `take`. */
  words: Int32Array;
  #free = NONE;
  #used = 0;
  #live = 0;

  constructor(stride: number) {
    this.stride = stride;
    this.words = new Int32Array(FIRST_CAPACITY * stride);
  }

  /** Rows in use. */
  get live(): number {
    return this.#live;
  }

  /** One more than the largest id ever given out: where a scan over all rows ends. */
  get used(): number {
    return this.#used;
  }

  /** Bytes of the array. */
  get bytes(): number {
    return this.words.byteLength;
  }

  /** Makes room for `more` rows, so that as many `take`s cannot fail. */
  reserve(more: number): void {
    const needed = this.#live + more;
    let capacity = this.words.length / this.stride;
    if (needed <= capacity) return;
    while (capacity < needed) capacity *= 2;
    const words = new Int32Array(capacity * this.stride);
    words.set(this.words);
    this.words = words;
  }

  /** A row, its words as its last user left them. */
  take(): number {
    this.#live++;
    if (this.#free !== NONE) {
      const id = this.#free;
      this.#free = this.words[id * this.stride]!;
      return id;
    }
    if ((this.#used + 1) * this.stride > this.words.length) {
      this.#live--;
      this.reserve(1);
      this.#live++;
    }
    return this.#used++;
  }

  /** Gives a row back. */
  give(id: number): void {
    this.words[id * this.stride] = this.#free;
    this.#free = id;
    this.#live--;
  }
}
