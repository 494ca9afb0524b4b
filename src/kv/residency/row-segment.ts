// Segments of a row table, and how rows are moved between them. A slot is one 32-bit word, the row's number + 1 and seven bits of the
// hash; where hashes are kept, the hash stands behind each slot, so that both are in one cache line. Behind the slots come META words.
import { mixPair } from './pair-mix.ts';
import { SEGMENT_MASK, SEGMENT_SHIFT, type SegmentedRows } from './segmented-rows.ts';

/** Bits of the hash that tell the place in a segment; those above are in the slot. */
export const PLACE_BITS = 13;
export const ID_BITS = 25;
export const ID_MASK: number = 2 ** ID_BITS - 1;

/** Words behind a segment's slots: rows in it, slots not empty, bits of the directory it is told by. */
export const ROWS = 0;
export const FILLED = 1;
export const DEPTH = 2;
export const META = 3;

/** Slots and hashes of rows that are moved, and where they are put together anew; shared by all tables. */
let moved = new Int32Array(0);
let work = new Int32Array(0);

/** An empty segment. @param keepsHashes 1 when the hash stands behind each slot, else 0. */
export function newSegment(slots: number, depth: number, keepsHashes: number): Int32Array {
  const segment = new Int32Array((slots << keepsHashes) + META);
  segment[(slots << keepsHashes) + DEPTH] = depth;
  return segment;
}

/** The hash of a row: of its two words from `key` on. */
export function hashOfRow(rows: SegmentedRows, key: number, id: number): number {
  const words = rows.segments[id >>> SEGMENT_SHIFT]!;
  const word = (id & SEGMENT_MASK) * rows.stride + key;
  return mixPair(words[word]!, words[word + 1]!);
}

/** Moves rows of the tables over the same rows and key. */
export class RowMover {
  readonly #rows: SegmentedRows;
  readonly #key: number;
  readonly #keepsHashes: number;

  constructor(rows: SegmentedRows, key: number, keepsHashes: number) {
    this.#rows = rows;
    this.#key = key;
    this.#keepsHashes = keepsHashes;
  }

  /** Puts the rows of one or two segments into `to`, which may be one of them. */
  move(from: Int32Array, other: Int32Array | null, to: Int32Array): void {
    const words = to.length - META;
    let rows = this.#gather(from, 0);
    if (other !== null) rows = this.#gather(other, rows);
    this.#place(rows, words, 0, 0);
    to.set(work.subarray(0, words));
    to[words + ROWS] = rows;
    to[words + FILLED] = rows;
  }

  /** Leaves those rows of a segment in it whose hash has the bit at `shift` unset, and puts the others into `high`, which is as large. */
  split(low: Int32Array, high: Int32Array, shift: number): void {
    const words = low.length - META;
    const rows = this.#gather(low, 0);
    const above = this.#place(rows, words, shift, words);
    low.set(work.subarray(0, words));
    high.set(work.subarray(words, 2 * words));
    low[words + ROWS] = rows - above;
    low[words + FILLED] = rows - above;
    high[words + ROWS] = above;
    high[words + FILLED] = above;
  }

  /**
   * Writes a segment's slots and hashes to `moved` behind so many; returns how many there are then. All rows are read before
   * any is placed: independent reads of memory overlap.
   */
  #gather(from: Int32Array, before: number): number {
    const keepsHashes = this.#keepsHashes;
    const slots = (from.length - META) >> keepsHashes;
    if (moved.length < 2 * (before + slots + 1)) {
      const larger = new Int32Array(2 * (before + slots + 1));
      larger.set(moved.subarray(0, 2 * before));
      moved = larger;
    }
    const to = moved;
    const key = this.#key;
    const { segments, stride } = this.#rows;
    let rows = before;
    for (let nth = 0; nth < slots; nth++) {
      const slot = from[nth << keepsHashes]!;
      const above = slot & ID_MASK;
      if (above === 0) continue;
      to[2 * rows] = slot;
      if (keepsHashes === 1) {
        to[2 * rows + 1] = from[2 * nth + 1]!;
      } else {
        const words = segments[(above - 1) >>> SEGMENT_SHIFT]!;
        const word = ((above - 1) & SEGMENT_MASK) * stride + key;
        to[2 * rows + 1] = mixPair(words[word]!, words[word + 1]!);
      }
      rows++;
    }
    return rows;
  }

  /**
   * Puts gathered rows into the work area, one segment of so many words or two: from `half` on those whose hash has the bit at `shift`
   * set, the others from 0 on; with `half` 0 all of them. There is no branch on the bit, which is a coin's toss.
   * @returns how many had the bit set.
   */
  #place(rows: number, words: number, shift: number, half: number): number {
    const keepsHashes = this.#keepsHashes;
    const mask = (words >> keepsHashes) - 1;
    if (work.length < words + half) work = new Int32Array(words + half);
    else work.fill(0, 0, words + half);
    const from = moved;
    const to = work;
    let above = 0;
    for (let nth = 0; nth < rows; nth++) {
      const hash = from[2 * nth + 1]!;
      const bit = (hash >>> shift) & 1;
      const base = -bit & half;
      above += bit;
      let at = hash & mask;
      while (to[base + (at << keepsHashes)] !== 0) at = (at + 1) & mask;
      to[base + (at << keepsHashes)] = from[2 * nth]!;
      if (keepsHashes === 1) to[base + (at << 1) + 1] = hash;
    }
    return above;
  }
}
