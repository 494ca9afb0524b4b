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
const TIDY_LOAD = 0.7;

/** A segment of at most this share of rows is shrunk, or merged with its other half when both together fill twice that. */
const SHRINK_LOAD = 0.25;

/** Bytes of several tables together. */
export interface ByteTally {
  bytes: number;
}

/** Segments that a single event can be expected to split. */
const SPLITS_AT_ONCE = 4;

/** Words behind a segment's slots: rows in it, slots not empty, bits of the directory it is told by. */
const ROWS = 0;
const FILLED = 1;
const DEPTH = 2;
const META = 3;

/** Slots and hashes of a segment while its rows are moved; shared by all tables. */
let moved = new Int32Array(0);

/** Slots, their meta words and, when hashes are kept, a hash per slot. */
function newSegment(slots: number, depth: number, keepsHashes: number): Int32Array {
  const segment = new Int32Array((slots << keepsHashes) + META);
  segment[slots + DEPTH] = depth;
  return segment;
}

/** A unique index over rows; the key is the two words from `key` on. Keys must not change while a row is in the table. */
export class RowTable {
  readonly #rows: SegmentedRows;
  readonly #key: number;
  /** 1 when segments keep the hashes of their rows, else 0. */
  readonly #keepsHashes: number;
  #directory: Int32Array[];
  /** Bits by which the directory tells segments apart. */
  #depth = 0;
  #count = 0;
  #probes = 0;
  /** What `touch` read: kept, so that the reading is not optimised away. */
  #touched = 0;
  #bytes = 0;
  readonly #tally: ByteTally;

  /**
   * @param keepsHashes four more bytes per slot, so that growing need not read the rows again.
   * @param tally counts the table's bytes too, until `leave`.
   */
  constructor(rows: SegmentedRows, key: number, keepsHashes = false, tally: ByteTally = { bytes: 0 }) {
    this.#rows = rows;
    this.#key = key;
    this.#keepsHashes = keepsHashes ? 1 : 0;
    this.#tally = tally;
    this.#directory = [newSegment(FIRST_SLOTS, 0, this.#keepsHashes)];
    this.#addBytes(this.#directory[0]!.byteLength);
  }

  /** Takes the table's bytes off its tally: it is used no more. */
  leave(): void {
    this.#tally.bytes -= this.#bytes;
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

  /** Bytes that so many inserts add at most, unless all of them meet in full segments. */
  growth(inserts: number): number {
    const first = this.#directory[0]!;
    if (this.#directory.length > 1) return Math.min(inserts, SPLITS_AT_ONCE) * first.byteLength;
    const size = (first.length - META) >> this.#keepsHashes;
    let slots = size;
    while (first[size + FILLED]! + inserts > slots * MAX_LOAD) slots *= 2;
    return 4 * ((slots - size) << this.#keepsHashes);
  }

  /** Number of the row whose key is these two signed words, −1 when there is none. */
  find(lo: number, hi: number): number {
    const hash = mixPair(lo, hi);
    const slots = this.#directory[(hash >>> DIRECTORY_SHIFT) >>> (DIRECTORY_BITS - this.#depth)]!;
    const mask = ((slots.length - META) >> this.#keepsHashes) - 1;
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

  /**
   * Reads the slots at which the keys of a list (lo, hi) would stand, so that finding or inserting them next does not wait for
   * memory one by one. Has no other effect.
   */
  touch(keys: Uint32Array): void {
    const depth = DIRECTORY_BITS - this.#depth;
    let read = 0;
    for (let i = 0; i + 1 < keys.length; i += 2) {
      const hash = mixPair(keys[i]! | 0, keys[i + 1]! | 0);
      const slots = this.#directory[(hash >>> DIRECTORY_SHIFT) >>> depth]!;
      read ^= slots[hash & (((slots.length - META) >> this.#keepsHashes) - 1)]!;
    }
    this.#touched ^= read;
  }

  /** Adds a row whose key is not in the table. */
  insert(id: number): void {
    const hash = this.#hashOf(id);
    let slots = this.#segmentOf(hash);
    let size = (slots.length - META) >> this.#keepsHashes;
    while (slots[size + FILLED]! + 1 > size * MAX_LOAD) {
      this.#makeRoom(slots, hash);
      slots = this.#segmentOf(hash);
      size = (slots.length - META) >> this.#keepsHashes;
    }
    this.#count++;
    slots[size + ROWS]!++;
    let at = hash & (size - 1);
    while ((slots[at]! & ID_MASK) !== 0) at = (at + 1) & (size - 1);
    if (slots[at] === 0) slots[size + FILLED]!++;
    slots[at] = (((hash >>> PLACE_BITS) & TAG_MASK) << ID_BITS) | (id + 1);
    if (this.#keepsHashes === 1) slots[size + META + at] = hash;
  }

  /** Lets `next`, a row with the same key, stand for `id`. */
  replace(id: number, next: number): void {
    const slots = this.#segmentOf(this.#hashOf(id));
    const at = this.#slotOf(slots, id);
    slots[at] = (slots[at]! & ~ID_MASK) | (next + 1);
  }

  /** Takes a row out; its key must still be the one it was inserted with. */
  delete(id: number): void {
    const hash = this.#hashOf(id);
    const slots = this.#segmentOf(hash);
    const size = (slots.length - META) >> this.#keepsHashes;
    const mask = size - 1;
    let at = hash & mask;
    while ((slots[at]! & ID_MASK) !== id + 1) at = (at + 1) & mask;
    this.#count--;
    const rows = --slots[size + ROWS]!;
    slots[at] = DELETED;
    if (slots[(at + 1) & mask] === 0) {
      // Nothing lies behind: this slot and deleted ones before it are passed by nobody.
      for (; slots[at] === DELETED; at = (at - 1) & mask) {
        slots[at] = 0;
        slots[size + FILLED]!--;
      }
    }
    if (rows <= size * SHRINK_LOAD && size > FIRST_SLOTS) this.#shrink(slots, hash);
  }

  #addBytes(bytes: number): void {
    this.#bytes += bytes;
    this.#tally.bytes += bytes;
  }

  /** Halves a segment that is alone, or merges one with its other half when both are nearly empty. */
  #shrink(slots: Int32Array, hash: number): void {
    const size = (slots.length - META) >> this.#keepsHashes;
    const depth = slots[size + DEPTH]!;
    if (depth === 0) {
      const half = newSegment(size >> 1, 0, this.#keepsHashes);
      this.#spread(slots, half, half, 0);
      this.#addBytes(half.byteLength - slots.byteLength);
      this.#directory.fill(half);
      return;
    }
    const other = this.#segmentOf(hash ^ (2 ** (32 - depth)));
    if (other.length !== slots.length || other[size + DEPTH] !== depth) return;
    if (other[size + ROWS]! + slots[size + ROWS]! > size * SHRINK_LOAD * 2) return;
    const rows = this.#gather(other, this.#gather(slots, 0));
    slots.fill(0, 0, size + DEPTH);
    this.#place(rows, slots, slots, 0);
    slots[size + DEPTH] = depth - 1;
    this.#addBytes(-other.byteLength);
    this.#lead(hash, depth - 1, slots, slots);
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
    const mask = ((slots.length - META) >> this.#keepsHashes) - 1;
    let at = this.#hashOf(id) & mask;
    while ((slots[at]! & ID_MASK) !== id + 1) at = (at + 1) & mask;
    return at;
  }

  /** Frees a segment of deleted slots, doubles a small one, splits a large one. */
  #makeRoom(full: Int32Array, hash: number): void {
    const size = (full.length - META) >> this.#keepsHashes;
    const depth = full[size + DEPTH]!;
    if (full[size + ROWS]! <= size * TIDY_LOAD) {
      this.#spread(full, full, full, 0);
    } else if (size < SEGMENT_SLOTS || depth === DIRECTORY_BITS) {
      const double = newSegment(2 * size, depth, this.#keepsHashes);
      this.#spread(full, double, double, 0);
      this.#addBytes(double.byteLength - full.byteLength);
      this.#lead(hash, depth, double, double);
    } else {
      const high = newSegment(size, depth + 1, this.#keepsHashes);
      this.#spread(full, full, high, 2 ** (31 - depth));
      full[size + DEPTH] = depth + 1;
      this.#addBytes(high.byteLength);
      if (depth === this.#depth) {
        this.#directory = this.#directory.flatMap((segment) => [segment, segment]);
        this.#depth++;
      }
      this.#lead(hash, depth, full, high);
    }
  }

  /** Moves the rows of a segment: those with this bit of the hash to `high`, the others to `low`, which may be the segment itself. */
  #spread(full: Int32Array, low: Int32Array, high: Int32Array, bit: number): void {
    const rows = this.#gather(full, 0);
    low.fill(0, 0, ((low.length - META) >> this.#keepsHashes) + DEPTH);
    this.#place(rows, low, high, bit);
  }

  /** Writes a segment's slots and hashes to `moved` behind so many; returns how many there are then. */
  #gather(from: Int32Array, before: number): number {
    const size = (from.length - META) >> this.#keepsHashes;
    if (moved.length < 2 * size) moved = new Int32Array(2 * size);
    let rows = before;
    for (let at = 0; at < size; at++) {
      const slot = from[at]!;
      if ((slot & ID_MASK) === 0) continue;
      moved[2 * rows] = slot;
      // All rows are read before any is placed: independent reads of memory overlap.
      moved[2 * rows + 1] =
        this.#keepsHashes === 1 ? from[size + META + at]! : this.#hashOf((slot & ID_MASK) - 1);
      rows++;
    }
    return rows;
  }

  /** Puts gathered rows into empty slots of two segments of a size. */
  #place(rows: number, low: Int32Array, high: Int32Array, bit: number): void {
    const mask = ((low.length - META) >> this.#keepsHashes) - 1;
    for (let i = 0; i < rows; i++) {
      const hash = moved[2 * i + 1]!;
      const to = (hash & bit) !== 0 ? high : low;
      let at = hash & mask;
      while (to[at] !== 0) at = (at + 1) & mask;
      to[at] = moved[2 * i]!;
      if (this.#keepsHashes === 1) to[mask + 1 + META + at] = hash;
      to[mask + 1 + ROWS]!++;
      to[mask + 1 + FILLED]!++;
    }
  }

  /** Lets the directory entries that led to a segment lead to two, by halves. */
  #lead(hash: number, depth: number, low: Int32Array, high: Int32Array): void {
    const span = 2 ** (this.#depth - depth);
    const first = ((hash >>> DIRECTORY_SHIFT) >>> (DIRECTORY_BITS - this.#depth)) & ~(span - 1);
    for (let i = 0; i < span; i++) this.#directory[first + i] = i >= span / 2 ? high : low;
  }
}
