// Runs of 4, 16 or 64 neighbouring rows, each with a header. Pages of 64 rows are cut into runs of one size; a page whose runs were
// all given back is cut anew as need be. A chain of blocks lies in runs, so that most of what is asked about it is asked per run.
import { MAX_ROWS, SegmentedRows } from './segmented-rows.ts';

const PAGE_SHIFT = 6;
const PAGE_ROWS = 2 ** PAGE_SHIFT;
const PAGE_MASK = PAGE_ROWS - 1;
const SIZES = 3;
const NONE = -1;

/** Word of a header: number of the run's first row. */
export const RUN_BASE = 0;
/** First word of a header that is the user's while the run is taken. */
export const RUN_OWN = 1;

/** Words of what is noted per page: its free runs as bits, and its neighbours in the list of pages it is in. */
const FREE = 0;
const BEFORE = 1;
const AFTER = 2;
const NOTE_WORDS = 3;

/** Rows of the largest runs. */
export const LARGEST_RUN = 64;
/** The size of the largest runs. */
export const LARGEST_SIZE: number = SIZES - 1;

/** Rows of the runs of a size: 4, 16, 64. */
export function runRows(size: number): number {
  return 4 << (2 * size);
}

/** The smallest size with at least `rows` rows; the largest when none has. */
export function runSizeFor(rows: number): number {
  return rows <= 4 ? 0 : rows <= 16 ? 1 : 2;
}

/** Free runs of a page that has only such, as bits. */
function allFree(size: number): number {
  return 2 ** (PAGE_ROWS / runRows(size)) - 1;
}

/** Rows in runs. A run is known by the number of its header. */
export class RunArena {
  readonly rows: SegmentedRows;
  readonly heads: SegmentedRows;
  readonly #notes = new SegmentedRows(NOTE_WORDS);
  /** Per page: number of its first header × 4 + size of its runs. */
  #pages = new Int32Array(4);
  #usedPages = 0;
  #usedHeads = 0;
  /** First page with free and taken runs, by size. */
  readonly #open = new Int32Array(SIZES).fill(NONE);
  /** First page without taken runs. */
  #empty = NONE;
  #emptyPages = 0;
  /** Free runs by size, those of pages without taken runs left out. */
  readonly #openRuns = new Int32Array(SIZES);
  /** First headers of pages that were cut anew, by the size of their runs; linked by RUN_BASE. */
  readonly #freeHeads = new Int32Array(SIZES).fill(NONE);
  /** Whether there may be more pages. Without, runs of other sizes are given out first. */
  grows = true;

  /** @param headWords words of a header; the first is RUN_BASE. */
  constructor(rowWords: number, headWords: number) {
    this.rows = new SegmentedRows(rowWords);
    this.heads = new SegmentedRows(headWords);
  }

  /** Bytes of all arrays. */
  get bytes(): number {
    return this.rows.bytes + this.heads.bytes + this.#notes.bytes + this.#pages.byteLength;
  }

  /** Runs that are sure to be had: as many `take`s cannot fail. */
  get room(): number {
    return Math.floor(MAX_ROWS / PAGE_ROWS) - this.#usedPages + this.#emptyPages;
  }

  /** Rows of runs that are not taken. */
  get freeRows(): number {
    let rows = PAGE_ROWS * this.#emptyPages;
    for (let size = 0; size < SIZES; size++) rows += runRows(size) * this.#openRuns[size]!;
    return rows;
  }

  /** Bytes that taking so many runs of a size adds at most, headers of pages that are cut anew left out. */
  growth(runs: number, size: number): number {
    const open = this.#openRuns[size]!;
    const ofEmpty = this.#emptyPages * (PAGE_ROWS / runRows(size));
    const more = Math.max(0, runs - open - ofEmpty);
    const pages = this.#usedPages + more;
    const index = pages > this.#pages.length ? this.#pages.byteLength : 0;
    const heads = this.heads.growth(this.#usedHeads + 16 * more);
    return this.rows.growth(PAGE_ROWS * pages) + heads + this.#notes.growth(pages) + index;
  }

  /** The largest size of which a run is to be had without another page, NONE when there is none. */
  largestFree(): number {
    if (this.#empty !== NONE) return LARGEST_SIZE;
    for (let size = LARGEST_SIZE; size >= 0; size--) if (this.#open[size] !== NONE) return size;
    return NONE;
  }

  /** Rows of a run. */
  rowsOf(run: number): number {
    return runRows(this.#pages[this.baseOf(run) >>> PAGE_SHIFT]! & 3);
  }

  /** A run's first row. */
  baseOf(run: number): number {
    return this.heads.get(run, RUN_BASE);
  }

  /** The run of a row. */
  runOf(row: number): number {
    const page = this.#pages[row >>> PAGE_SHIFT]!;
    return (page >> 2) + ((row & PAGE_MASK) >>> (2 + 2 * (page & 3)));
  }

  /**
   * A run of a size; its rows and its header, base aside, are as their last user left them. While the arena may not grow, it may be a
   * larger one, or with `orLess` a smaller one, if there is one.
   */
  take(size: number, orLess = false): number {
    const page = this.#pageFor(size, orLess);
    const of = this.#pages[page]! & 3;
    const free = this.#notes.get(page, FREE);
    const at = 31 - Math.clz32(free & -free);
    const left = free & (free - 1);
    this.#notes.set(page, FREE, left);
    if (left === 0) this.#unlink(page, of);
    this.#openRuns[of]!--;
    return (this.#pages[page]! >> 2) + at;
  }

  /** Gives a run back. */
  give(run: number): void {
    const base = this.baseOf(run);
    const page = base >>> PAGE_SHIFT;
    const size = this.#pages[page]! & 3;
    const before = this.#notes.get(page, FREE);
    const free = before | (1 << ((base & PAGE_MASK) >>> (2 + 2 * size)));
    this.#notes.set(page, FREE, free);
    this.#openRuns[size]!++;
    if (free === allFree(size)) {
      if (before !== 0) this.#unlink(page, size);
      this.#notes.set(page, AFTER, this.#empty);
      this.#empty = page;
      this.#emptyPages++;
      this.#openRuns[size]! -= PAGE_ROWS / runRows(size);
    } else if (before === 0) {
      this.#link(page, size);
    }
  }

  /** A page in a list of open ones, with a free run of the size or of what comes nearest. */
  #pageFor(size: number, orLess: boolean): number {
    if (this.#open[size] !== NONE) return this.#open[size]!;
    if (this.#empty === NONE && !this.grows) {
      for (let less = size - 1; orLess && less >= 0; less--)
        if (this.#open[less] !== NONE) return this.#open[less]!;
      for (let more = size + 1; more < SIZES; more++) if (this.#open[more] !== NONE) return this.#open[more]!;
    }
    const page = this.#empty === NONE ? this.#newPage() : this.#takeEmpty();
    this.#cut(page, size);
    this.#link(page, size);
    return page;
  }

  #takeEmpty(): number {
    const page = this.#empty;
    this.#empty = this.#notes.get(page, AFTER);
    this.#emptyPages--;
    return page;
  }

  #newPage(): number {
    const page = this.#usedPages++;
    this.rows.reserve(PAGE_ROWS * this.#usedPages);
    this.#notes.reserve(this.#usedPages);
    if (page >= this.#pages.length) {
      const pages = new Int32Array(2 * this.#pages.length);
      pages.set(this.#pages);
      this.#pages = pages;
    }
    this.#pages[page] = NONE;
    return page;
  }

  /** Cuts a page without taken runs into runs of a size. */
  #cut(page: number, size: number): void {
    const before = this.#pages[page]!;
    this.#notes.set(page, FREE, allFree(size));
    this.#openRuns[size]! += PAGE_ROWS / runRows(size);
    if (before !== NONE && (before & 3) === size) return;
    if (before !== NONE) {
      this.heads.set(before >> 2, RUN_BASE, this.#freeHeads[before & 3]!);
      this.#freeHeads[before & 3] = before >> 2;
    }
    const runs = PAGE_ROWS / runRows(size);
    let first = this.#freeHeads[size]!;
    if (first === NONE) {
      first = this.#usedHeads;
      this.#usedHeads += runs;
      this.heads.reserve(this.#usedHeads);
    } else {
      this.#freeHeads[size] = this.heads.get(first, RUN_BASE);
    }
    this.#pages[page] = (first << 2) | size;
    for (let run = 0; run < runs; run++) {
      this.heads.set(first + run, RUN_BASE, PAGE_ROWS * page + run * runRows(size));
    }
  }

  #link(page: number, size: number): void {
    const next = this.#open[size]!;
    this.#notes.set(page, BEFORE, NONE);
    this.#notes.set(page, AFTER, next);
    if (next !== NONE) this.#notes.set(next, BEFORE, page);
    this.#open[size] = page;
  }

  #unlink(page: number, size: number): void {
    const before = this.#notes.get(page, BEFORE);
    const after = this.#notes.get(page, AFTER);
    if (before === NONE) this.#open[size] = after;
    else this.#notes.set(before, AFTER, after);
    if (after !== NONE) this.#notes.set(after, BEFORE, before);
  }
}
