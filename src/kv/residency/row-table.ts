// Finds rows of an arena by two of their words. Open addressing with linear probing and backward-shift deletion; a slot is one
// 32-bit word: the row's id + 1 and seven bits of the key's hash, so that a probe reads a row only when it almost surely matches.
import { mixPair } from './pair-mix.ts';
import type { RowArena } from './row-arena.ts';

const FIRST_SLOTS = 16;
const ID_BITS = 25;
const ID_MASK = 2 ** ID_BITS - 1;
/** Slots are filled to this share at most. */
const MAX_LOAD = 0.6;

/** A unique index over rows; the key is the two words from `key` on. Keys must not change while a row is in the table. */
export class RowTable {
  readonly #rows: RowArena;
  readonly #key: number;
  #slots = new Int32Array(FIRST_SLOTS);
  #count = 0;
  #probes = 0;

  constructor(rows: RowArena, key: number) {
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
    return this.#slots.byteLength;
  }

  /** Id of the row whose key is these two signed words, −1 when there is none. */
  find(lo: number, hi: number): number {
    const slots = this.#slots;
    const mask = slots.length - 1;
    const { words, stride } = this.#rows;
    const key = this.#key;
    const hash = mixPair(lo, hi);
    const tag = hash >>> ID_BITS;
    const home = hash & mask;
    let at = home;
    let found = -1;
    for (let slot = slots[at]!; slot !== 0; slot = slots[at]!) {
      if (slot >>> ID_BITS === tag) {
        const id = (slot & ID_MASK) - 1;
        const word = id * stride + key;
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

  /** Makes room for `more` rows, so that as many `insert`s cannot fail. */
  reserve(more: number): void {
    const needed = this.#count + more;
    let size = this.#slots.length;
    if (needed <= size * MAX_LOAD) return;
    while (needed > size * MAX_LOAD) size *= 2;
    const old = this.#slots;
    this.#slots = new Int32Array(size);
    for (const slot of old) {
      if (slot !== 0) this.#place((slot & ID_MASK) - 1);
    }
  }

  /** Adds a row whose key is not in the table. */
  insert(id: number): void {
    this.reserve(1);
    this.#place(id);
    this.#count++;
  }

  /** Lets `next`, a row with the same key, stand for `id`. */
  replace(id: number, next: number): void {
    const at = this.#slotOf(id);
    this.#slots[at] = (this.#slots[at]! & ~ID_MASK) | (next + 1);
  }

  /** Takes a row out; its words must still be those it was inserted with. */
  delete(id: number): void {
    const slots = this.#slots;
    const mask = slots.length - 1;
    let hole = this.#slotOf(id);
    this.#count--;
    // Rows behind the hole move up unless that would put them before their home.
    for (let at = (hole + 1) & mask; slots[at] !== 0; at = (at + 1) & mask) {
      const home = this.#hashOf((slots[at]! & ID_MASK) - 1) & mask;
      if (((at - home) & mask) >= ((at - hole) & mask)) {
        slots[hole] = slots[at]!;
        hole = at;
      }
    }
    slots[hole] = 0;
  }

  /** Ids of all rows, in no particular order; a fresh array. */
  ids(): Int32Array {
    const ids = new Int32Array(this.#count);
    let n = 0;
    for (const slot of this.#slots) {
      if (slot !== 0) ids[n++] = (slot & ID_MASK) - 1;
    }
    return ids;
  }

  #hashOf(id: number): number {
    const word = id * this.#rows.stride + this.#key;
    return mixPair(this.#rows.words[word]!, this.#rows.words[word + 1]!);
  }

  #place(id: number): void {
    const slots = this.#slots;
    const mask = slots.length - 1;
    const hash = this.#hashOf(id);
    let at = hash & mask;
    while (slots[at] !== 0) at = (at + 1) & mask;
    slots[at] = (hash & ~ID_MASK) | (id + 1);
  }

  #slotOf(id: number): number {
    const slots = this.#slots;
    const mask = slots.length - 1;
    let at = this.#hashOf(id) & mask;
    while ((slots[at]! & ID_MASK) !== id + 1) at = (at + 1) & mask;
    return at;
  }
}
