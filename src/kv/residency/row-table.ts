// Finds rows by two of their words. Extendible hashing: a directory by the upper bits of the hash leads to segments with open
// addressing, and a full segment is split in two by itself, so that growing never takes longer than one segment does. A slot has
// seven bits of the hash beside the row's number, so that a probe reads a row only when it almost surely matches.
import { mixPair } from './pair-mix.ts';
import {
  DEPTH,
  FILLED,
  hashOfRow,
  ID_BITS,
  ID_MASK,
  META,
  newSegment,
  PLACE_BITS,
  ROWS,
  RowMover,
} from './row-segment.ts';
import { SEGMENT_MASK, SEGMENT_SHIFT, type SegmentedRows } from './segmented-rows.ts';

const FIRST_SLOTS = 16;
/** Slots of a segment, split when full; only one at the deepest level grows beyond. */
const SEGMENT_SLOTS = 2 ** PLACE_BITS;
/** Bits of the hash: 13 for the place in a segment, 7 in the slot, the upper 13 for the directory. */
const DIRECTORY_BITS = 13;
const DIRECTORY_SHIFT = 32 - DIRECTORY_BITS;
const TAG_MASK = 127;
/** What a slot holds whose row was taken out while rows behind it may have passed it. */
const DELETED = 2 ** ID_BITS;
/** Slots are filled to this share at most, deleted ones included, unless a table has its own. */
const MAX_LOAD = 0.8;
/** Up to this share of the most rows, a segment is only freed of deleted slots. */
const TIDY_SHARE = 7 / 8;
/** A segment of at most this share of the most rows is shrunk, or merged with its other half when both together fill twice that. */
const SHRINK_SHARE = 5 / 16;

/** Words from a key's place on that are mostly looked at: less than a cache line. */
const PROBED_WORDS = 12;
/** Where the searches of the last `findAll` of any table ended, how many those are, and how often it was called; shared by all tables. */
let ends = new Int32Array(0);
let ended = 0;
let searches = 0;

/** Bytes of several tables together. */
export interface ByteTally {
  bytes: number;
}

/** Segments that a single event can be expected to split. */
const SPLITS_AT_ONCE = 4;
/** A unique index over rows; the key is the two words from `key` on. Keys must not change while a row is in the table. */
export class RowTable {
  readonly #rows: SegmentedRows;
  readonly #key: number;
  /** 1 when segments keep the hashes of their rows, else 0. */
  readonly #keepsHashes: number;
  readonly #mover: RowMover;
  #directory: Int32Array[];
  /** Bits by which the directory tells segments apart. */
  #depth = 0;
  #count = 0;
  #probes = 0;
  /** What `touch` read: kept, so that the reading is not optimised away. */
  #touched = 0;
  #bytes = 0;
  readonly #tally: ByteTally;
  readonly #maxLoad: number;
  /** Where the last search ended. */
  #end = 0;
  /** Its last `findAll`, when the places where that ended still hold; else −1. */
  #search = -1;

  /**
   * @param keepsHashes four more bytes per slot, so that growing need not read the rows again.
   * @param tally counts the table's bytes too, until `leave`.
   * @param maxLoad share of slots that are filled at most: the fewer, the sooner it is seen that a key is not there.
   */
  constructor(
    rows: SegmentedRows,
    key: number,
    keepsHashes = false,
    tally: ByteTally = { bytes: 0 },
    maxLoad: number = MAX_LOAD,
  ) {
    this.#rows = rows;
    this.#key = key;
    this.#keepsHashes = keepsHashes ? 1 : 0;
    this.#mover = new RowMover(rows, key, this.#keepsHashes);
    this.#tally = tally;
    this.#maxLoad = maxLoad;
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
    while (first[first.length - META + FILLED]! + inserts > slots * this.#maxLoad) slots *= 2;
    return 4 * ((slots - size) << this.#keepsHashes);
  }

  /** Number of the row whose key is these two signed words, −1 when there is none. */
  find(lo: number, hi: number): number {
    return this.findMixed(lo, hi, mixPair(lo, hi));
  }

  /** As `find`, with the mixed hash of the key. */
  findMixed(lo: number, hi: number, hash: number): number {
    const slots = this.#segmentOf(hash);
    const keepsHashes = this.#keepsHashes;
    const mask = ((slots.length - META) >> keepsHashes) - 1;
    const tag = (hash >>> PLACE_BITS) & TAG_MASK;
    const { segments, stride } = this.#rows;
    const home = hash & mask;
    let at = home;
    let found = -1;
    for (let slot = slots[at << keepsHashes]!; slot !== 0; slot = slots[at << keepsHashes]!) {
      if (
        slot >>> ID_BITS === tag &&
        slot !== DELETED &&
        (keepsHashes === 0 || slots[(at << 1) + 1] === hash)
      ) {
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
    this.#end = at;
    return found;
  }

  /**
   * Finds the rows of the first `count` keys of a list (lo, hi) with these mixed hashes: −1 in `found` where there is none.
   * @returns how many there are.
   */
  findAll(keys: Uint32Array, mixes: Int32Array, count: number, found: Int32Array): number {
    if (ends.length < count) ends = new Int32Array(2 * count);
    ended = count;
    this.#search = ++searches;
    let there = 0;
    for (let i = 0; i < count; i++) {
      const id = this.findMixed(keys[2 * i]! | 0, keys[2 * i + 1]! | 0, mixes[i]!);
      ends[i] = this.#end;
      found[i] = id;
      there += (id >>> 31) ^ 1;
    }
    return there;
  }

  /**
   * Reads the slots at which keys with these mixed hashes would stand, and those some further, so that finding or inserting them next
   * does not wait for memory one by one. Has no other effect.
   */
  touch(mixes: Int32Array, count: number): void {
    const directory = this.#directory;
    const shift = DIRECTORY_BITS - this.#depth;
    const keepsHashes = this.#keepsHashes;
    // Segments told apart by the directory have a size, or are larger.
    const size = (directory[0]!.length - META) >> keepsHashes;
    const mask = Math.min(size, SEGMENT_SLOTS) - 1;
    let read = 0;
    for (let i = 0; i < count; i++) {
      const hash = mixes[i]!;
      const slots = directory[(hash >>> DIRECTORY_SHIFT) >>> shift]!;
      const at = (hash & mask) << keepsHashes;
      read ^= slots[at]! ^ slots[(at + PROBED_WORDS) & (mask << keepsHashes)]!;
    }
    this.#touched ^= read;
  }

  /** Adds a row whose key is not in the table. */
  insert(id: number): void {
    const hash = hashOfRow(this.#rows, this.#key, id);
    this.#put(id, hash, hash);
  }

  /**
   * Adds rows `id`, `id` + 1 … whose keys, not in the table, have the mixed hashes [from, to). When `findAll` was called at all since
   * the table changed otherwise, it must have been for this list.
   */
  insertRun(id: number, mixes: Int32Array, from: number, to: number): void {
    for (let i = from; i < to; i++) {
      const hash = mixes[i]!;
      this.#put(id + i - from, hash, this.#search === searches && i < ended ? ends[i]! : hash);
    }
  }

  /** Lets `next`, a row with the same key, stand for `id`. */
  replace(id: number, next: number): void {
    const hash = hashOfRow(this.#rows, this.#key, id);
    const slots = this.#segmentOf(hash);
    const word = this.#slotOf(slots, id, hash) << this.#keepsHashes;
    slots[word] = (slots[word]! & ~ID_MASK) | (next + 1);
  }

  /** Takes a row out; its key must still be the one it was inserted with. */
  delete(id: number): void {
    this.#take(id, hashOfRow(this.#rows, this.#key, id));
  }

  /** Takes rows `id`, `id` + 1 … out, whose keys have the mixed hashes [from, to). */
  deleteRun(id: number, mixes: Int32Array, from: number, to: number): void {
    for (let i = from; i < to; i++) this.#take(id + i - from, mixes[i]!);
  }

  /** Adds a row. Where no row was deleted, the place to look for an empty slot from is `end`. */
  #put(id: number, hash: number, end: number): void {
    const keepsHashes = this.#keepsHashes;
    let slots = this.#segmentOf(hash);
    let words = slots.length - META;
    let start = end;
    while (slots[words + FILLED]! + 1 > (words >> keepsHashes) * this.#maxLoad) {
      this.#makeRoom(slots, hash);
      this.#search = -1;
      start = hash;
      slots = this.#segmentOf(hash);
      words = slots.length - META;
    }
    this.#count++;
    const mask = (words >> keepsHashes) - 1;
    const rows = slots[words + ROWS]!;
    slots[words + ROWS] = rows + 1;
    let at = (rows === slots[words + FILLED] ? start : hash) & mask;
    while ((slots[at << keepsHashes]! & ID_MASK) !== 0) at = (at + 1) & mask;
    const word = at << keepsHashes;
    if (slots[word] === 0) slots[words + FILLED]!++;
    slots[word] = (((hash >>> PLACE_BITS) & TAG_MASK) << ID_BITS) | (id + 1);
    if (keepsHashes === 1) slots[word + 1] = hash;
  }

  #take(id: number, hash: number): void {
    this.#search = -1;
    const keepsHashes = this.#keepsHashes;
    const slots = this.#segmentOf(hash);
    const words = slots.length - META;
    const mask = (words >> keepsHashes) - 1;
    let at = this.#slotOf(slots, id, hash);
    this.#count--;
    const rows = --slots[words + ROWS]!;
    slots[at << keepsHashes] = DELETED;
    if (slots[((at + 1) & mask) << keepsHashes] === 0) {
      // Nothing lies behind: this slot and deleted ones before it are passed by nobody.
      for (; slots[at << keepsHashes] === DELETED; at = (at - 1) & mask) {
        slots[at << keepsHashes] = 0;
        slots[words + FILLED]!--;
      }
    }
    if (rows <= (mask + 1) * this.#maxLoad * SHRINK_SHARE && mask + 1 > FIRST_SLOTS)
      this.#shrink(slots, hash);
  }

  #addBytes(bytes: number): void {
    this.#bytes += bytes;
    this.#tally.bytes += bytes;
  }

  /** Halves a segment that is alone, or merges one with its other half when both are nearly empty. */
  #shrink(slots: Int32Array, hash: number): void {
    const words = slots.length - META;
    const size = words >> this.#keepsHashes;
    const depth = slots[words + DEPTH]!;
    if (depth === 0) {
      const half = newSegment(size >> 1, 0, this.#keepsHashes);
      this.#mover.move(slots, null, half);
      this.#addBytes(half.byteLength - slots.byteLength);
      this.#directory.fill(half);
      return;
    }
    const other = this.#segmentOf(hash ^ (2 ** (32 - depth)));
    if (other.length !== slots.length || other[words + DEPTH] !== depth) return;
    if (other[words + ROWS]! + slots[words + ROWS]! > size * this.#maxLoad * SHRINK_SHARE * 2) return;
    this.#mover.move(slots, other, slots);
    slots[words + DEPTH] = depth - 1;
    this.#addBytes(-other.byteLength);
    this.#lead(hash, depth - 1, slots, slots);
  }

  #segmentOf(hash: number): Int32Array {
    return this.#directory[(hash >>> DIRECTORY_SHIFT) >>> (DIRECTORY_BITS - this.#depth)]!;
  }

  #slotOf(slots: Int32Array, id: number, hash: number): number {
    const keepsHashes = this.#keepsHashes;
    const mask = ((slots.length - META) >> keepsHashes) - 1;
    let at = hash & mask;
    while ((slots[at << keepsHashes]! & ID_MASK) !== id + 1) at = (at + 1) & mask;
    return at;
  }

  /** Frees a segment of deleted slots, doubles a small one, splits a large one. */
  #makeRoom(full: Int32Array, hash: number): void {
    const words = full.length - META;
    const size = words >> this.#keepsHashes;
    const depth = full[words + DEPTH]!;
    if (full[words + ROWS]! <= size * this.#maxLoad * TIDY_SHARE) {
      this.#mover.move(full, null, full);
    } else if (size < SEGMENT_SLOTS || depth === DIRECTORY_BITS) {
      const double = newSegment(2 * size, depth, this.#keepsHashes);
      this.#mover.move(full, null, double);
      this.#addBytes(double.byteLength - full.byteLength);
      this.#lead(hash, depth, double, double);
    } else {
      const high = newSegment(size, depth + 1, this.#keepsHashes);
      this.#mover.split(full, high, 31 - depth);
      full[words + DEPTH] = depth + 1;
      this.#addBytes(high.byteLength);
      if (depth === this.#depth) {
        this.#directory = this.#directory.flatMap((segment) => [segment, segment]);
        this.#depth++;
      }
      this.#lead(hash, depth, full, high);
    }
  }

  /** Lets the directory entries that led to a segment lead to two, by halves. */
  #lead(hash: number, depth: number, low: Int32Array, high: Int32Array): void {
    const span = 2 ** (this.#depth - depth);
    const first = ((hash >>> DIRECTORY_SHIFT) >>> (DIRECTORY_BITS - this.#depth)) & ~(span - 1);
    for (let i = 0; i < span; i++) this.#directory[first + i] = i >= span / 2 ? high : low;
  }
}
