// The blocks that sessions have, each once: rows with a hash and links to parent and children. Who has what is told elsewhere; here
// only lies what that needs of a row. Blocks that nobody refers to stay, in a list, until they are pruned.
import { RowArena } from '../residency/row-arena.ts';
import { RowTable } from '../residency/row-table.ts';
import { MAX_ROWS, SEGMENT_MASK, SEGMENT_SHIFT, SegmentedRows } from '../residency/segmented-rows.ts';

/** No row. */
export const NONE = -1;

/** Words of a row. The first is the parent's row; or NONE; or, where that is the row before in the same segment, see `runOf`. */
const PARENT = 0;
const FIRST_CHILD = 1;
/** Neighbours among the children of the parent. */
const NEXT = 2;
const PREVIOUS = 3;
/** First of the frontiers at this block. */
export const FRONTIERS = 4;
/** How often the row was given back: the upper part of a node's id. */
const GENERATION = 5;
/** Next in the list of blocks that may be pruned; else NOT_LISTED, or FREE. */
const PRUNABLE = 6;
/** Whose paths go through the block: see OwnerPaths. */
export const OWNER = 7;
export const COUNT = 8;
/** What an operation under way noted of the block; told from older notes by being larger. */
const MARK = 9;
const STRIDE = 10;
/** Words of a row of hashes, which lie apart so that those of a run can be copied at once. */
const LOW = 0;
const HIGH = 1;
const HASH_STRIDE = 2;

/** A parent word at or below this: the row before, in a run of one block more than that has. */
const FIRST_RUN = -2;
const NOT_LISTED = -2;
const FREE = -3;

/** Bytes of a block at most: its row, and its slot in a table that is half full. */
export const NODE_BYTES: number = 4 * (STRIDE + HASH_STRIDE) + 8;
/** Numbers of rows fit into this many values, generations into 2²⁷. */
const ROW_VALUES: number = MAX_ROWS + 1;
const GENERATION_MASK = 2 ** 27 - 1;
/** Blocks that are copied one by one sooner than through a view. */
const FEW = 8;
/** Notes that one operation can tell apart. */
const MARKS_AT_ONCE = 3;
/** Beyond this notes start anew. */
const MOST_MARK = 2 ** 30;

/** Blocks by hash, with parents and children. */
export class LineageForest {
  readonly #arena = new RowArena(STRIDE, PARENT);
  readonly #rows = this.#arena.rows;
  readonly #hashes = new SegmentedRows(HASH_STRIDE);
  readonly #table = new RowTable(this.#hashes, LOW);
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
    return this.#rows.bytes + this.#hashes.bytes + this.#table.bytes;
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
    this.#hashes.reserve(this.#arena.used);
    this.#hashes.set(row, LOW, lo);
    this.#hashes.set(row, HIGH, hi);
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
    const isBeside = parent === row - 1 && (row & SEGMENT_MASK) !== 0;
    rows.set(row, PARENT, isBeside ? FIRST_RUN - this.#runOf(parent) : parent);
    rows.set(row, NEXT, first);
    rows.set(row, PREVIOUS, NONE);
    if (first !== NONE) rows.set(first, PREVIOUS, row);
    rows.set(parent, FIRST_CHILD, row);
  }

  /** The block before a block; NONE when none is known. */
  parent(row: number): number {
    const parent = this.#rows.get(row, PARENT);
    return parent > FIRST_RUN ? parent : row - 1;
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
    return this.#hashes.get(row, LOW) === (lo | 0) && this.#hashes.get(row, HIGH) === (hi | 0);
  }

  low(row: number): number {
    return this.#hashes.get(row, LOW) >>> 0;
  }

  high(row: number): number {
    return this.#hashes.get(row, HIGH) >>> 0;
  }

  /** How many blocks a path has, from `start`, or NONE for its root, to a block; 0 when it does not go through `start`. */
  pathLength(row: number, start: number): number {
    let length = 0;
    for (let x = row; x !== NONE; ) {
      const first = x - this.#runOf(x);
      if (start >= first && start <= x) return length + x - start + 1;
      length += x - first + 1;
      x = this.parent(first);
    }
    return start === NONE ? length : 0;
  }

  /** Writes the hashes of the last `length` blocks of the path to a block to `out`, pair by pair. */
  writePath(row: number, length: number, out: Uint32Array): void {
    const { segments } = this.#hashes;
    let x = row;
    for (let left = length; left > 0; ) {
      const blocks = Math.min(left, this.#runOf(x) + 1);
      left -= blocks;
      const words = segments[x >>> SEGMENT_SHIFT]!;
      const end = HASH_STRIDE * ((x & SEGMENT_MASK) + 1);
      const from = end - HASH_STRIDE * blocks;
      if (blocks > FEW) out.set(words.subarray(from, end), HASH_STRIDE * left);
      else for (let word = from; word < end; word++) out[HASH_STRIDE * left + word - from] = words[word]!;
      x = this.parent(x - blocks + 1);
    }
  }

  /** The first of the last `count` blocks of the path to a block, ≥ 1, when these are those of a list; else NONE. */
  firstOf(row: number, hashes: Uint32Array, count: number): number {
    const { segments } = this.#hashes;
    let x = row;
    for (let left = count; ; ) {
      const blocks = Math.min(left, this.#runOf(x) + 1);
      const words = segments[x >>> SEGMENT_SHIFT]!;
      const from = HASH_STRIDE * ((x & SEGMENT_MASK) + 1 - blocks);
      left -= blocks;
      const offset = HASH_STRIDE * left - from;
      for (let word = from; word < from + HASH_STRIDE * blocks; word++)
        if (words[word] !== (hashes[offset + word]! | 0)) return NONE;
      const first = x - blocks + 1;
      if (left === 0) return first;
      x = this.parent(first);
      if (x === NONE) return NONE;
    }
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

  /** How many blocks right before a block are the rows right before its row. */
  #runOf(row: number): number {
    const parent = this.#rows.get(row, PARENT);
    return parent > FIRST_RUN ? 0 : FIRST_RUN - parent + 1;
  }

  #isNeeded(row: number): boolean {
    return this.#rows.get(row, FIRST_CHILD) !== NONE || this.#rows.get(row, FRONTIERS) !== NONE;
  }

  #delete(row: number): void {
    const rows = this.#rows;
    this.#table.delete(row);
    const parent = this.parent(row);
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
