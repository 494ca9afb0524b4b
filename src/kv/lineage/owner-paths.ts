// Through which blocks the paths of an owner's frontiers go, each with a count: frontiers of the owner at the block, and children
// with a count of their own. It is what a removal follows down, so that it meets only what it changes.
//
// Mostly one owner's paths alone go through a block: then owner and count stand in the block's row. Of several each has an entry in a list.
import { RowArena } from '../residency/row-arena.ts';
import { RowTable } from '../residency/row-table.ts';
import { COUNT, type LineageForest, NONE, OWNER } from './lineage-forest.ts';

/** Words of an entry. */
const NODE = 0;
const WHOSE = 1;
const TIMES = 2;
const NEXT = 3;
const PREVIOUS = 4;
const STRIDE = 5;
/** An owner word at or below this is a list: FIRST_LIST − row of its first entry. The count word is its length then. */
const FIRST_LIST = -2;

/** Bytes of an entry at most: its row, and its slot in a table that is half full. */
const ENTRY_BYTES: number = 4 * STRIDE + 8;

/** Counts by owner and block. */
export class OwnerPaths {
  readonly #forest: LineageForest;
  readonly #arena = new RowArena(STRIDE, NEXT);
  readonly #entries = this.#arena.rows;
  readonly #table = new RowTable(this.#entries, NODE);

  constructor(forest: LineageForest) {
    this.#forest = forest;
  }

  /** Bytes of what is in use. */
  get usedBytes(): number {
    return this.#arena.live * ENTRY_BYTES;
  }

  /** Bytes of all arrays. */
  get bytes(): number {
    return this.#entries.bytes + this.#table.bytes;
  }

  /** The count of an owner at a block; 0 when none of its paths goes through it. */
  count(owner: number, row: number): number {
    const whose = this.#forest.get(row, OWNER);
    if (whose === owner) return this.#forest.get(row, COUNT);
    if (whose > FIRST_LIST) return 0;
    const entry = this.#table.find(row, owner);
    return entry === NONE ? 0 : this.#entries.get(entry, TIMES);
  }

  /** A frontier of the owner, or a path through a child, comes to a block. */
  add(owner: number, row: number): void {
    for (let x = row; x !== NONE; x = this.#forest.parent(x)) if (this.#increment(owner, x) > 1) return;
  }

  /** One goes from it. */
  remove(owner: number, row: number): void {
    for (let x = row; x !== NONE; x = this.#forest.parent(x)) if (this.#decrement(owner, x) > 0) return;
  }

  /** A block got a parent: the paths through it go on through that. */
  grafted(row: number): void {
    const parent = this.#forest.parent(row);
    const whose = this.#forest.get(row, OWNER);
    if (whose > FIRST_LIST) {
      if (whose !== NONE) this.add(whose, parent);
      return;
    }
    for (let entry = FIRST_LIST - whose; entry !== NONE; entry = this.#entries.get(entry, NEXT))
      this.add(this.#entries.get(entry, WHOSE), parent);
  }

  #increment(owner: number, row: number): number {
    const forest = this.#forest;
    const whose = forest.get(row, OWNER);
    if (whose === owner) {
      const times = forest.get(row, COUNT) + 1;
      forest.set(row, COUNT, times);
      return times;
    }
    if (whose === NONE) {
      forest.set(row, OWNER, owner);
      forest.set(row, COUNT, 1);
      return 1;
    }
    if (whose >= 0) {
      const times = forest.get(row, COUNT);
      forest.set(row, OWNER, FIRST_LIST - this.#newEntry(row, whose, times, NONE));
      forest.set(row, COUNT, 1);
    }
    const entry = this.#table.find(row, owner);
    if (entry !== NONE) {
      const times = this.#entries.get(entry, TIMES) + 1;
      this.#entries.set(entry, TIMES, times);
      return times;
    }
    const first = FIRST_LIST - forest.get(row, OWNER);
    forest.set(row, OWNER, FIRST_LIST - this.#newEntry(row, owner, 1, first));
    forest.set(row, COUNT, forest.get(row, COUNT) + 1);
    return 1;
  }

  #decrement(owner: number, row: number): number {
    const forest = this.#forest;
    if (forest.get(row, OWNER) === owner) {
      const times = forest.get(row, COUNT) - 1;
      forest.set(row, COUNT, times);
      if (times === 0) forest.set(row, OWNER, NONE);
      return times;
    }
    const entries = this.#entries;
    const entry = this.#table.find(row, owner);
    const times = entries.get(entry, TIMES) - 1;
    entries.set(entry, TIMES, times);
    if (times === 0) this.#dropEntry(row, entry);
    return times;
  }

  #newEntry(row: number, owner: number, times: number, next: number): number {
    const entries = this.#entries;
    const entry = this.#arena.take();
    entries.set(entry, NODE, row);
    entries.set(entry, WHOSE, owner);
    entries.set(entry, TIMES, times);
    entries.set(entry, NEXT, next);
    entries.set(entry, PREVIOUS, NONE);
    if (next !== NONE) entries.set(next, PREVIOUS, entry);
    this.#table.insert(entry);
    return entry;
  }

  /** Takes an entry out of a block's list; the last one left moves into the block's row. */
  #dropEntry(row: number, entry: number): void {
    const forest = this.#forest;
    const entries = this.#entries;
    const next = entries.get(entry, NEXT);
    const previous = entries.get(entry, PREVIOUS);
    if (next !== NONE) entries.set(next, PREVIOUS, previous);
    if (previous === NONE) forest.set(row, OWNER, FIRST_LIST - next);
    else entries.set(previous, NEXT, next);
    this.#free(entry);
    const left = forest.get(row, COUNT) - 1;
    forest.set(row, COUNT, left);
    if (left > 1) return;
    const last = FIRST_LIST - forest.get(row, OWNER);
    forest.set(row, OWNER, entries.get(last, WHOSE));
    forest.set(row, COUNT, entries.get(last, TIMES));
    this.#free(last);
  }

  #free(entry: number): void {
    this.#table.delete(entry);
    this.#arena.give(entry);
  }
}
