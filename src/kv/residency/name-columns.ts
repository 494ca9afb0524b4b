// What each owner calls the blocks it holds. A column is one owner's names for one extent: per block the tiers it lies on (four bits)
// and the engine's hash, or no hashes at all where the engine's are the router's own. An owner that announces one block under several
// engine hashes has several columns for the extent, newest first for every block.
import type { HashPairs, U64 } from '../hashing/types.ts';
import type { OwnerState } from './owner-state.ts';
import { RowArena } from './row-arena.ts';
import { RowTable } from './row-table.ts';
import { RUN_OWN, RunArena, runSizeFor } from './run-arena.ts';
import { SEGMENT_MASK, SEGMENT_SHIFT } from './segmented-rows.ts';

/** Words of a column. */
const EXTENT = 0;
const OWNER = 1;
/** Next column of the same extent and owner; links free columns. */
const NEXT = 2;
const BEFORE_OF_OWNER = 3;
const AFTER_OF_OWNER = 4;
/** The clears its owner had per tier when it was made or last freed of cleared tiers: a byte each. */
const CLEARS = 5;
/** Names in it, and from bit 8 on the owner's clears of all tiers when it was made. */
const LIVE = 6;
/** Run of its engine hashes, −1 when they are the router's. */
const RUN = 7;
/** Eight blocks per word, four bits each. */
const TIERS = 8;
const STRIDE = 16;

/** Word of a name run's header: its column. */
const RUN_COLUMN = RUN_OWN;
/** Words of a name: an engine hash. */
export const NAME_WORDS = 2;
const NONE = -1;

/** The bits of a word of tiers for places from `at` on, up to `end` or to the end of the word. */
function maskOf(at: number, end: number): number {
  const places = Math.min(8 - (at & 7), end - at);
  return (places === 8 ? -1 : 2 ** (4 * places) - 1) << (4 * (at & 7));
}

/** All columns of all owners. A name is known by the number of its row in the runs of engine hashes. */
export class NameColumns {
  readonly names = new RunArena(NAME_WORDS, RUN_OWN + 1);
  readonly #arena = new RowArena(STRIDE, NEXT);
  readonly #columns = this.#arena.rows;
  readonly #byPair = new RowTable(this.#columns, EXTENT);
  #live = 0;
  /** The pair asked for last, and its first column. */
  #lastExtent = NONE;
  #lastOwner = NONE;
  #lastFirst = NONE;

  /** Bytes of all arrays. */
  get bytes(): number {
    return this.names.bytes + this.#columns.bytes + this.#byPair.bytes;
  }

  /** Columns that are to be had without growing. */
  get room(): number {
    return this.#columns.capacity - this.#arena.live;
  }

  /** Bytes that so many columns for extents of a size add at most. */
  growth(columns: number, size: number): number {
    return this.names.growth(columns, size) + this.#arena.growth(columns) + this.#byPair.growth(columns);
  }

  /** Table slots looked at so far. */
  get probes(): number {
    return this.#byPair.probes;
  }

  /** Names of all owners, cleared ones still in place included. */
  get live(): number {
    return this.#live;
  }

  /** One more than the largest column ever given out: where a scan over all ends. */
  get used(): number {
    return this.#arena.used;
  }

  /** The owner's first column for an extent, −1 when it has none. */
  first(extent: number, owner: number): number {
    if (extent === this.#lastExtent && owner === this.#lastOwner) return this.#lastFirst;
    const first = this.#byPair.find(extent, owner);
    this.#noteFirst(extent, owner, first);
    return first;
  }

  #noteFirst(extent: number, owner: number, first: number): void {
    this.#lastExtent = extent;
    this.#lastOwner = owner;
    this.#lastFirst = first;
  }

  /** The next column of the same extent and owner, −1 for none. */
  next(column: number): number {
    return this.#columns.get(column, NEXT);
  }

  /** The next column of the same owner, −1 for none. */
  afterOfOwner(column: number): number {
    return this.#columns.get(column, AFTER_OF_OWNER);
  }

  extentOf(column: number): number {
    return this.#columns.get(column, EXTENT);
  }

  ownerOf(column: number): number {
    return this.#columns.get(column, OWNER);
  }

  /** Names in a column; 0 once it is given back. */
  liveOf(column: number): number {
    return this.#columns.get(column, LIVE) & 255;
  }

  /** Whether a column has engine hashes of its own. */
  isNamed(column: number): boolean {
    return this.#columns.get(column, RUN) !== NONE;
  }

  /** The tiers noted for a block, those that were cleared since included. */
  tiersOf(column: number, offset: number): number {
    return (this.#columns.get(column, TIERS + (offset >> 3)) >>> (4 * (offset & 7))) & 15;
  }

  /** The tiers noted for a block in all columns of a list. */
  tiersFrom(first: number, offset: number): number {
    let tiers = 0;
    for (let at = first; at !== NONE; at = this.next(at)) tiers |= this.tiersOf(at, offset);
    return tiers;
  }

  setTiers(column: number, offset: number, tiers: number): void {
    const shift = 4 * (offset & 7);
    const word = TIERS + (offset >> 3);
    this.#columns.set(column, word, (this.#columns.get(column, word) & ~(15 << shift)) | (tiers << shift));
  }

  /** Clears noted in a column: a byte per tier. */
  clearsOf(column: number): number {
    return this.#columns.get(column, CLEARS);
  }

  setClears(column: number, clears: number): void {
    this.#columns.set(column, CLEARS, clears);
  }

  /** Number of a block's name in a named column. */
  nameAt(column: number, offset: number): number {
    return this.names.baseOf(this.#columns.get(column, RUN)) + offset;
  }

  /** The engine hash of a block in a named column. */
  hashAt(column: number, offset: number): U64 {
    const name = this.nameAt(column, offset);
    return { lo: this.names.rows.get(name, 0) >>> 0, hi: this.names.rows.get(name, 1) >>> 0 };
  }

  /** The column of an engine hash's row × 64 + the place in it. */
  nameOf(row: number): number {
    const run = this.names.runOf(row);
    return 64 * this.names.heads.get(run, RUN_COLUMN) + row - this.names.baseOf(run);
  }

  /** Whether a column has no names at places [offset, offset + run). */
  areFree(column: number, offset: number, run: number): boolean {
    return this.areOn(column, offset, run, 0);
  }

  /** Whether the blocks at places [offset, offset + run) are all on these tiers, and on no others. */
  areOn(column: number, offset: number, run: number, tiers: number): boolean {
    const all = Math.imul(tiers, 0x11111111);
    for (let at = offset; at < offset + run; at = (at | 7) + 1) {
      const word = this.#columns.get(column, TIERS + (at >> 3));
      if (((word ^ all) & maskOf(at, offset + run)) !== 0) return false;
    }
    return true;
  }

  #setTiersOfRun(column: number, offset: number, run: number, tiers: number): void {
    for (let at = offset; at < offset + run; at = (at | 7) + 1) {
      const word = TIERS + (at >> 3);
      const mask = maskOf(at, offset + run);
      const others = this.#columns.get(column, word) & ~mask;
      this.#columns.set(column, word, others | (Math.imul(tiers, 0x11111111) & mask));
    }
  }

  /** As `add` for a run of blocks: the engine hashes from `index` on of a list, where the column has any. */
  addRun(
    column: number,
    offset: number,
    run: number,
    tiers: number,
    block: number,
    external: HashPairs,
    mixes: Int32Array,
    index: number,
    state: OwnerState,
  ): void {
    this.#setTiersOfRun(column, offset, run, tiers);
    this.#columns.set(column, LIVE, this.#columns.get(column, LIVE) + run);
    state.live += run;
    this.#live += run;
    if (!this.isNamed(column)) {
      state.routerNamesToFill().insertRun(block, mixes, index, index + run);
      return;
    }
    const name = this.nameAt(column, offset);
    const words = this.names.rows.segments[name >>> SEGMENT_SHIFT]!;
    const first = (name & SEGMENT_MASK) * NAME_WORDS;
    for (let word = 0; word < 2 * run; word++) words[first + word] = external[2 * index + word]!;
    state.namesToFill().insertRun(name, mixes, index, index + run);
  }

  /** A new name of a block, in a column of its kind that has none there: the engine hash in signed halves, where it has any. */
  add(
    column: number,
    offset: number,
    tiers: number,
    block: number,
    lo: number,
    hi: number,
    state: OwnerState,
  ): void {
    this.setTiers(column, offset, tiers);
    this.#columns.set(column, LIVE, this.#columns.get(column, LIVE) + 1);
    state.live++;
    this.#live++;
    if (!this.isNamed(column)) {
      state.routerNamesToFill().insert(block);
      return;
    }
    const name = this.nameAt(column, offset);
    this.names.rows.set(name, 0, lo);
    this.names.rows.set(name, 1, hi);
    state.namesToFill().insert(name);
  }

  /** As `delete` for a run of blocks, whose engine hashes have the mixed hashes from `index` on of a list. No cleared block may be in place. */
  deleteRun(
    column: number,
    offset: number,
    run: number,
    block: number,
    mixes: Int32Array,
    index: number,
    state: OwnerState,
  ): boolean {
    this.#setTiersOfRun(column, offset, run, 0);
    if (this.isNamed(column)) {
      state.names?.deleteRun(this.nameAt(column, offset), mixes, index, index + run);
    } else state.routerNames?.deleteRun(block, mixes, index, index + run);
    state.live -= run;
    this.#live -= run;
    const live = this.#columns.get(column, LIVE) - run;
    this.#columns.set(column, LIVE, live);
    return (live & 255) === 0;
  }

  /** Takes a name out of a column; whether it was the last, and the column must be given back. */
  delete(column: number, offset: number, block: number, state: OwnerState): boolean {
    this.setTiers(column, offset, 0);
    // What all tiers were cleared of has lost its engine hashes then and there.
    if (this.#columns.get(column, LIVE) >>> 8 === state.born) {
      if (this.isNamed(column)) state.names?.delete(this.nameAt(column, offset));
      else state.routerNames?.delete(block);
    }
    state.live--;
    this.#live--;
    const live = this.#columns.get(column, LIVE) - 1;
    this.#columns.set(column, LIVE, live);
    return (live & 255) === 0;
  }

  /**
   * A column before all others of the extent and owner.
   * @param rows rows of the extent.
   */
  open(extent: number, rows: number, named: boolean, state: OwnerState): number {
    const first = this.first(extent, state.owner);
    const column = this.#arena.take();
    const columns = this.#columns;
    columns.set(column, EXTENT, extent);
    columns.set(column, OWNER, state.owner);
    columns.set(column, NEXT, first);
    columns.set(column, BEFORE_OF_OWNER, NONE);
    columns.set(column, AFTER_OF_OWNER, state.head);
    if (state.head !== NONE) columns.set(state.head, BEFORE_OF_OWNER, column);
    state.head = column;
    columns.set(column, CLEARS, state.clears);
    columns.set(column, LIVE, state.born << 8);
    for (let word = TIERS; word < STRIDE; word++) columns.set(column, word, 0);
    let run = NONE;
    if (named) {
      run = this.names.take(runSizeFor(rows));
      this.names.heads.set(run, RUN_COLUMN, column);
    }
    columns.set(column, RUN, run);
    if (first === NONE) this.#byPair.insert(column);
    else this.#byPair.replace(first, column);
    this.#noteFirst(extent, state.owner, column);
    return column;
  }

  /** Gives an empty column back. */
  close(column: number, state: OwnerState): void {
    const columns = this.#columns;
    const first = this.first(this.extentOf(column), state.owner);
    const next = columns.get(column, NEXT);
    if (first !== column) {
      let before = first;
      while (columns.get(before, NEXT) !== column) before = columns.get(before, NEXT);
      columns.set(before, NEXT, next);
    } else if (next === NONE) {
      this.#byPair.delete(column);
    } else {
      this.#byPair.replace(column, next);
    }
    if (first === column) this.#noteFirst(this.extentOf(column), state.owner, next);
    const before = columns.get(column, BEFORE_OF_OWNER);
    const after = columns.get(column, AFTER_OF_OWNER);
    if (before !== NONE) columns.set(before, AFTER_OF_OWNER, after);
    if (after !== NONE) columns.set(after, BEFORE_OF_OWNER, before);
    if (state.head === column) state.head = after;
    if (state.cursor === column) state.cursor = after;
    const run = columns.get(column, RUN);
    if (run !== NONE) this.names.give(run);
    columns.set(column, LIVE, 0);
    this.#arena.give(column);
  }
}
