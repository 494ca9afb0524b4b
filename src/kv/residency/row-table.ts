// Finds rows by two of their words. Extendible hashing: a directory by the upper bits of the hash leads to segments with open
// addressing, and a full segment is split in two by itself, so that growing never takes longer than one segment does. A slot is one
// 32-bit word, the row's number + 1 and seven bits of the hash, so that a probe reads a row only when it almost surely matches.
import { mixPair } from './pair-mix.ts';
import { SEGMENT_MASK, SEGMENT_SHIFT, type SegmentedRows } from './segmented-rows.ts';

const FIRST_SLOTS = 16;
/** Slots of a segment, split when full; only one at the deepest level grows beyond. */
const SEGMENT_SLOTS = 8192;
/** Bits of the hash: 13 for the place in a segment, 7 in the slot, the upper 13 for the directory. */
const PLACE_BITS = 13;
const DIRECTORY_BITS = 13;
const DIRECTORY_SHIFT = 32 - DIRECTORY_BITS;
const TAG_MASK = 127;
const ID_BITS = 25;
const ID_MASK = 2 ** ID_BITS - 1;
/** What a slot holds whose row was taken out while rows behind it may have passed it. */
const DELETED = 2 ** ID_BITS;
/** Slots are filled to this share at most, deleted ones included. */
const MAX_LOAD = 0.8;
/** Up to this share of rows, a segment is only freed of deleted slots. */
const TIDY_LOAD = 0.6;

/** Words behind a segment's slots: rows in it, slots not empty, bits of the directory it is told by. */
const ROWS = 0;
const FILLED = 1;
const DEPTH = 2;
const META = 3;

function newSegment(slots: number, depth: number): Int32Array {
  const segment = new Int32Array(slots + META);
  segment[slots + DEPTH] = depth;
  return segment;
}

/** A unique index over rows; the key is the two words from `key` on. Keys must not change while a row is in the table. */
export class RowTable {
  readonly #rows: SegmentedRows;
  readonly #key: number;
  #directory: Int32Array[] = [newSegment(FIRST_SLOTS, 0)];
  /** Bits by which the directory tells segments apart. */
  #depth = 0;
  #count = 0;
  #probes = 0;
  #bytes = 4 * (FIRST_SLOTS + META);

  constructor(rows: SegmentedRows, key: number) {
    this.#rows = rows;
    this.#key = key;
  }

  /** Rows in the table. */
  get count(): number {
    return this.#count;
  }

  /** Slots looked at by all `find` calls so far. */
  get probes(): number {
    return this.#probes;
  }

  /** Bytes of the slots. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Number of the row whose key is these two signed words, −1 when there is none. */
  find(lo: number, hi: number): number {
    const hash = mixPair(lo, hi);
    const slots = this.#directory[(hash >>> DIRECTORY_SHIFT) >>> (DIRECTORY_BITS - this.#depth)]!;
    const mask = slots.length - META - 1;
    const tag = (hash >>> PLACE_BITS) & TAG_MASK;
    const { segments, stride } = this.#rows;
    const home = hash & mask;
    let at = home;
    let found = -1;
    for (let slot = slots[at]!; slot !== 0; slot = slots[at]!) {
      if (slot >>> ID_BITS === tag && slot !== DELETED) {
        const id = (slot & ID_MASK) - 1;
        const words = segments[id >>> SEGMENT_SHIFT]!;
        const word = (id & SEGMENT_MASK) * stride + this.#key;
        if (words[word] === lo && words[word + 1] === hi) {
          found = id;
          break;
        }
      }
      at = (at + 1) & mask;
    }
    this.#probes += ((at - home) & mask) + 1;
    return found;
  }

  /** Adds a row whose key is not in the table. */
  insert(id: number): void {
    const hash = this.#hashOf(id);
    let slots = this.#segmentOf(hash);
    let size = slots.length - META;
    while (slots[size + FILLED]! + 1 > size * MAX_LOAD) {
      this.#makeRoom(slots, hash);
      slots = this.#segmentOf(hash);
      size = slots.length - META;
    }
    this.#count++;
    slots[size + ROWS]!++;
    let at = hash & (size - 1);
    while ((slots[at]! & ID_MASK) !== 0) at = (at + 1) & (size - 1);
    if (slots[at] === 0) slots[size + FILLED]!++;
    slots[at] = (((hash >>> PLACE_BITS) & TAG_MASK) << ID_BITS) | (id + 1);
  }

  /** Lets `next`, a row with the same key, stand for `id`. */
  replace(id: number, next: number): void {
    const slots = this.#segmentOf(this.#hashOf(id));
    const at = this.#slotOf(slots, id);
    slots[at] = (slots[at]! & ~ID_MASK) | (next + 1);
  }

  /** Takes a row out; its key must still be the one it was inserted with. */
  delete(id: number): void {
    const slots = this.#segmentOf(this.#hashOf(id));
    const size = slots.length - META;
    const mask = size - 1;
    let at = this.#slotOf(slots, id);
    this.#count--;
    slots[size + ROWS]!--;
    slots[at] = DELETED;
    if (slots[(at + 1) & mask] !== 0) return;
    // Nothing lies behind: this slot and deleted ones before it are passed by nobody.
    for (; slots[at] === DELETED; at = (at - 1) & mask) {
      slots[at] = 0;
      slots[size + FILLED]!--;
    }
  }

  #hashOf(id: number): number {
    const { segments, stride } = this.#rows;
    const words = segments[id >>> SEGMENT_SHIFT]!;
    const word = (id & SEGMENT_MASK) * stride + this.#key;
    return mixPair(words[word]!, words[word + 1]!);
  }

  #segmentOf(hash: number): Int32Array {
    return this.#directory[(hash >>> DIRECTORY_SHIFT) >>> (DIRECTORY_BITS - this.#depth)]!;
  }

  #slotOf(slots: Int32Array, id: number): number {
    const mask = slots.length - META - 1;
    let at = this.#hashOf(id) & mask;
    while ((slots[at]! & ID_MASK) !== id + 1) at = (at + 1) & mask;
    return at;
  }

  /** Frees a segment of deleted slots, doubles a small one, splits a large one. */
  #makeRoom(full: Int32Array, hash: number): void {
    const size = full.length - META;
    const depth = full[size + DEPTH]!;
    if (full[size + ROWS]! <= size * TIDY_LOAD) {
      this.#replace(full, hash, depth, newSegment(size, depth), null);
    } else if (size < SEGMENT_SLOTS || depth === DIRECTORY_BITS) {
      this.#replace(full, hash, depth, newSegment(2 * size, depth), null);
    } else {
      this.#replace(full, hash, depth, newSegment(size, depth + 1), newSegment(size, depth + 1));
    }
  }

  /** Moves the rows of a segment to one or two others and lets the directory lead there. */
  #replace(full: Int32Array, hash: number, depth: number, low: Int32Array, high: Int32Array | null): void {
    const old = full.length - META;
    const mask = low.length - META - 1;
    const side = 2 ** (DIRECTORY_BITS - 1 - depth);
    for (let from = 0; from < old; from++) {
      const slot = full[from]!;
      if ((slot & ID_MASK) === 0) continue;
      const of = this.#hashOf((slot & ID_MASK) - 1);
      const to = high !== null && ((of >>> DIRECTORY_SHIFT) & side) !== 0 ? high : low;
      let at = of & mask;
      while (to[at] !== 0) at = (at + 1) & mask;
      to[at] = slot;
      to[mask + 1 + ROWS]!++;
    }
    low[mask + 1 + FILLED] = low[mask + 1 + ROWS]!;
    if (high !== null) high[mask + 1 + FILLED] = high[mask + 1 + ROWS]!;
    this.#bytes += low.byteLength + (high?.byteLength ?? 0) - full.byteLength;
    if (high !== null && depth === this.#depth) {
      this.#directory = this.#directory.flatMap((segment) => [segment, segment]);
      this.#depth++;
    }
    const span = 2 ** (this.#depth - depth);
    const first = ((hash >>> DIRECTORY_SHIFT) >>> (DIRECTORY_BITS - this.#depth)) & ~(span - 1);
    for (let i = 0; i < span; i++) this.#directory[first + i] = high !== null && i >= span / 2 ? high : low;
  }
}
