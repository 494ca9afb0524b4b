// Fixed-width rows of 32-bit words in segments of equal size, addressed by a dense number. Growing adds a segment and copies
// nothing, except that the first one, while it is alone, grows by doubling: an index of few blocks takes few bytes.
const FIRST_ROWS = 64;

/** Low bits of a row number: its place in the segment. */
export const SEGMENT_SHIFT = 11;
/** Rows per segment. */
export const SEGMENT_ROWS: number = 2 ** SEGMENT_SHIFT;
/** The place in the segment as a mask. */
export const SEGMENT_MASK: number = SEGMENT_ROWS - 1;

/** Most rows: row numbers must fit the 25 bits a table slot has for them. */
export const MAX_ROWS: number = 2 ** 25 - 1;

/** Rows of `stride` words, zero at first. Word w of row r is `segments[r >>> SEGMENT_SHIFT][(r & SEGMENT_MASK) * stride + w]`. */
export class SegmentedRows {
  /** Words per row. */
  readonly stride: number;
  /** The segments; the array stays the same, its first element may be replaced by a `reserve`. */
  readonly segments: Int32Array[];
  #capacity = FIRST_ROWS;

  constructor(stride: number) {
    this.stride = stride;
    this.segments = [new Int32Array(FIRST_ROWS * stride)];
  }

  /** Rows there is room for. */
  get capacity(): number {
    return this.#capacity;
  }

  /** Bytes of all segments. */
  get bytes(): number {
    return 4 * this.stride * this.#capacity;
  }

  /** Bytes that `reserve` of so many rows would add. */
  growth(rows: number): number {
    let capacity = this.#capacity;
    while (capacity < rows && capacity < SEGMENT_ROWS) capacity *= 2;
    if (capacity < rows) capacity = Math.ceil(rows / SEGMENT_ROWS) * SEGMENT_ROWS;
    return 4 * this.stride * (capacity - this.#capacity);
  }

  /** Makes room for so many rows. */
  reserve(rows: number): void {
    while (this.#capacity < rows) {
      if (this.#capacity < SEGMENT_ROWS) {
        const first = new Int32Array(2 * this.#capacity * this.stride);
        first.set(this.segments[0]!);
        this.segments[0] = first;
        this.#capacity *= 2;
      } else {
        this.segments.push(new Int32Array(SEGMENT_ROWS * this.stride));
        this.#capacity += SEGMENT_ROWS;
      }
    }
  }

  /** A word of a row. */
  get(row: number, word: number): number {
    return this.segments[row >>> SEGMENT_SHIFT]![(row & SEGMENT_MASK) * this.stride + word]!;
  }

  /** Sets a word of a row. */
  set(row: number, word: number, value: number): void {
    this.segments[row >>> SEGMENT_SHIFT]![(row & SEGMENT_MASK) * this.stride + word] = value;
  }
}
