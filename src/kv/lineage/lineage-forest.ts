// The blocks that sessions have, each once: rows with a hash and links to parent and children. Who has what is told elsewhere; here
// only lies what that needs of a row. Blocks that nobody refers to stay, in a list, until they are pruned.
import { RowArena } from '../residency/row-arena.ts';
import { RowTable } from '../residency/row-table.ts';
import { MAX_ROWS, SEGMENT_MASK, SEGMENT_SHIFT } from '../residency/segmented-rows.ts';

/** No row. */
export const NONE = -1;

/** Words of a row. */
const LOW = 0;
const HIGH = 1;
const PARENT = 2;
const FIRST_CHILD = 3;
/** Neighbours among the children of the parent. */
const NEXT = 4;
const PREVIOUS = 5;
/** First of the frontiers at this block. */
export const FRONTIERS = 6;
/** How often the row was given back: the upper part of a node's id. */
const GENERATION = 7;
/** Next in the list of blocks that may be pruned; else NOT_LISTED, or FREE. */
const PRUNABLE = 8;
/** Whose paths go through the block: see OwnerPaths. */
export const OWNER = 9;
export const COUNT = 10;
/** What an operation under way noted of the block; told from older notes by being larger. */
const MARK = 11;
const STRIDE = 12;

const NOT_LISTED = -2;
const FREE = -3;

/** Bytes of a block at most: its row, and its slot in a table that is half full. */
export const NODE_BYTES: number = 4 * STRIDE + 8;
/** Numbers of rows fit into this many values, generations into 2²⁷. */
const ROW_VALUES: number = MAX_ROWS + 1;
const GENERATION_MASK = 2 ** 27 - 1;
/** Notes that one operation can tell apart. */
const MARKS_AT_ONCE = 3;
/** Beyond this notes start anew. */
const MOST_MARK = 2 ** 30;

/** Blocks by hash, with parents and children. */
export class LineageForest {
  readonly #arena = new RowArena(STRIDE, PARENT);
  readonly #rows = this.#arena.rows;
  readonly #table = new RowTable(this.#rows, LOW);
  readonly #mostMark: number;
  #prunable = NONE;
  #mark = 0;

  /** @param mostMark the mark beyond which marks start anew; less than the default only in tests. */
  constructor(mostMark: number = MOST_MARK) {
    this.#mostMark = mostMark;
  }

  /** Blocks. */
  get size(): number {
    return this.#table.count;
  }

  /** Bytes of all arrays. */
  get bytes(): number {
    return this.#rows.bytes + this.#table.bytes;
  }

  /** Where a scan over all rows ends. */
  get used(): number {
    return this.#arena.used;
  }

  /** Row of a hash, given as two words of either sign. */
  find(lo: number, hi: number): number {
    return this.#table.find(lo | 0, hi | 0);
  }

  /** Adds a block that is not there, behind `parent` or NONE. */
  insert(lo: number, hi: number, parent: number): number {
    const row = this.#arena.take();
    const rows = this.#rows;
    rows.set(row, LOW, lo);
    rows.set(row, HIGH, hi);
    rows.set(row, FIRST_CHILD, NONE);
    rows.set(row, FRONTIERS, NONE);
    rows.set(row, PRUNABLE, NOT_LISTED);
    rows.set(row, OWNER, NONE);
    rows.set(row, MARK, 0);
    rows.set(row, PARENT, NONE);
    if (parent !== NONE) this.graft(row, parent);
    this.#table.insert(row);
    return row;
  }

  /** Puts a block without parent behind one that is not behind it. */
  graft(row: number, parent: number): void {
    const rows = this.#rows;
    const first = rows.get(parent, FIRST_CHILD);
    rows.set(row, PARENT, parent);
    rows.set(row, NEXT, first);
    rows.set(row, PREVIOUS, NONE);
    if (first !== NONE) rows.set(first, PREVIOUS, row);
    rows.set(parent, FIRST_CHILD, row);
  }

  /** The block before a block; NONE when none is known. */
  parent(row: number): number {
    return this.#rows.get(row, PARENT);
  }

  firstChild(row: number): number {
    return this.#rows.get(row, FIRST_CHILD);
  }

  /** The next child of a block's parent. */
  sibling(row: number): number {
    return this.#rows.get(row, NEXT);
  }

  /** One of the words that others keep in a row. */
  get(row: number, word: typeof FRONTIERS | typeof OWNER | typeof COUNT): number {
    return this.#rows.get(row, word);
  }

  /** Sets one of them. */
  set(row: number, word: typeof FRONTIERS | typeof OWNER | typeof COUNT, value: number): void {
    this.#rows.set(row, word, value);
  }

  /** Whether a block has this hash. */
  is(row: number, lo: number, hi: number): boolean {
    return this.#rows.get(row, LOW) === (lo | 0) && this.#rows.get(row, HIGH) === (hi | 0);
  }

  low(row: number): number {
    return this.#rows.get(row, LOW) >>> 0;
  }

  high(row: number): number {
    return this.#rows.get(row, HIGH) >>> 0;
  }

  /**
   * Writes the hashes of a block and those before it backwards to `out`, up to and with `end`, the last of them in front of the pair
   * `at`. Returns the pair where they begin; negative when there was no room for all.
   */
  writePath(row: number, end: number, out: Uint32Array, at: number): number {
    const { segments } = this.#rows;
    let to = at;
    for (let x = row; x !== NONE; ) {
      to--;
      const words = segments[x >>> SEGMENT_SHIFT]!;
      const word = (x & SEGMENT_MASK) * STRIDE;
      if (to >= 0) {
        out[2 * to] = words[word]!;
        out[2 * to + 1] = words[word + HIGH]!;
      }
      if (x === end) break;
      x = words[word + PARENT]!;
    }
    return to;
  }

  /** The number that stands for a block for good. */
  idOf(row: number): number {
    return this.#rows.get(row, GENERATION) * ROW_VALUES + row;
  }

  /** Row of such a number; NONE when the block is gone. */
  rowOf(id: number): number {
    if (!Number.isSafeInteger(id) || id < 0) return NONE;
    const row = id % ROW_VALUES;
    return this.isLive(row) && this.idOf(row) === id ? row : NONE;
  }

  /** Whether a block is in this row. */
  isLive(row: number): boolean {
    return row < this.#arena.used && this.#rows.get(row, PRUNABLE) !== FREE;
  }

  /** The least of three marks in a row that no block has yet. */
  newMarks(): number {
    if (this.#mark > this.#mostMark) {
      for (let row = 0; row < this.#arena.used; row++) this.#rows.set(row, MARK, 0);
      this.#mark = 0;
    }
    const mark = this.#mark + 1;
    this.#mark += MARKS_AT_ONCE;
    return mark;
  }

  markOf(row: number): number {
    return this.#rows.get(row, MARK);
  }

  setMark(row: number, mark: number): void {
    this.#rows.set(row, MARK, mark);
  }

  /** Whether blocks wait to be pruned. */
  get hasPrunable(): boolean {
    return this.#prunable !== NONE;
  }

  /** Puts a block on the list of those that may be pruned, if it may be. */
  lost(row: number): void {
    const rows = this.#rows;
    if (rows.get(row, PRUNABLE) !== NOT_LISTED || this.#isNeeded(row)) return;
    rows.set(row, PRUNABLE, this.#prunable);
    this.#prunable = row;
  }

  /** Takes up to `most` blocks off the list and prunes those that nobody needed again. Returns how many that were. */
  prune(most: number): number {
    const rows = this.#rows;
    let pruned = 0;
    for (let nth = 0; nth < most && this.#prunable !== NONE; nth++) {
      const row = this.#prunable;
      this.#prunable = rows.get(row, PRUNABLE);
      rows.set(row, PRUNABLE, NOT_LISTED);
      if (this.#isNeeded(row)) continue;
      this.#delete(row);
      pruned++;
    }
    return pruned;
  }

  #isNeeded(row: number): boolean {
    return this.#rows.get(row, FIRST_CHILD) !== NONE || this.#rows.get(row, FRONTIERS) !== NONE;
  }

  #delete(row: number): void {
    const rows = this.#rows;
    this.#table.delete(row);
    const parent = rows.get(row, PARENT);
    if (parent !== NONE) {
      const next = rows.get(row, NEXT);
      const previous = rows.get(row, PREVIOUS);
      if (next !== NONE) rows.set(next, PREVIOUS, previous);
      if (previous === NONE) rows.set(parent, FIRST_CHILD, next);
      else rows.set(previous, NEXT, next);
      this.lost(parent);
    }
    rows.set(row, PRUNABLE, FREE);
    rows.set(row, GENERATION, (rows.get(row, GENERATION) + 1) & GENERATION_MASK);
    this.#arena.give(row);
  }
}
