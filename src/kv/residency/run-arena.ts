// Runs of 4, 16 or 64 neighbouring rows, each with a header. Pages of 64 rows are cut into runs of one size and stay cut that way;
// given-back runs are reused by size. A chain of blocks lies in runs, so that most of what is asked about it is asked per run.
import { MAX_ROWS, SegmentedRows } from './segmented-rows.ts';

const PAGE_SHIFT = 6;
const PAGE_MASK = 2 ** PAGE_SHIFT - 1;
const SIZES = 3;
const NONE = -1;

/** Word of a header: number of the run's first row. */
export const RUN_BASE = 0;
/** Word of a header that is the user's while the run is taken, and links free runs. */
export const RUN_OWN = 1;

/** Rows of the largest runs. */
export const LARGEST_RUN = 64;

/** Rows of the runs of a size: 4, 16, 64. */
export function runRows(size: number): number {
  return 4 << (2 * size);
}

/** The smallest size with at least `rows` rows; the largest when none has. */
export function runSizeFor(rows: number): number {
  return rows <= 4 ? 0 : rows <= 16 ? 1 : 2;
}

/** Rows in runs. A run is known by the number of its header. */
export class RunArena {
  readonly rows: SegmentedRows;
  readonly heads: SegmentedRows;
  /** Per page: number of its first header × 4 + size of its runs. */
  #pages = new Int32Array(4);
  #usedPages = 0;
  #usedHeads = 0;
  readonly #free = new Int32Array(SIZES).fill(NONE);
  readonly #freeRuns = new Int32Array(SIZES);

  /** @param headWords words of a header; the first is RUN_BASE. */
  constructor(rowWords: number, headWords: number) {
    this.rows = new SegmentedRows(rowWords);
    this.heads = new SegmentedRows(headWords);
  }

  /** Bytes of all arrays. */
  get bytes(): number {
    return this.rows.bytes + this.heads.bytes + this.#pages.byteLength;
  }

  /** Runs that are sure to be had: as many `take`s cannot fail. */
  get room(): number {
    return Math.floor(MAX_ROWS / 64) - this.#usedPages;
  }

  /** Bytes that taking so many runs of a size adds at most. */
  growth(runs: number, size: number): number {
    const more = Math.max(0, runs - this.#freeRuns[size]!);
    const pages = this.#usedPages + more;
    const index = pages > this.#pages.length ? this.#pages.byteLength : 0;
    return this.rows.growth(64 * pages) + this.heads.growth(this.#usedHeads + 16 * more) + index;
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

  /** A run of a size; its rows and its header, base aside, are as their last user left them. */
  take(size: number): number {
    const free = this.#free[size]!;
    if (free !== NONE) {
      this.#free[size] = this.heads.get(free, RUN_OWN);
      this.#freeRuns[size]!--;
      return free;
    }
    const first = this.#usedHeads;
    const page = this.#usedPages;
    const runs = 64 / runRows(size);
    this.#usedHeads += runs;
    this.#usedPages++;
    this.rows.reserve(64 * this.#usedPages);
    this.heads.reserve(this.#usedHeads);
    if (page >= this.#pages.length) this.#growPages();
    this.#pages[page] = (first << 2) | size;
    for (let run = first + runs - 1; run >= first; run--) {
      this.heads.set(run, RUN_BASE, 64 * page + (run - first) * runRows(size));
      if (run > first) this.give(run);
    }
    return first;
  }

  /** Gives a run back. */
  give(run: number): void {
    const size = this.#pages[this.baseOf(run) >>> PAGE_SHIFT]! & 3;
    this.heads.set(run, RUN_OWN, this.#free[size]!);
    this.#free[size] = run;
    this.#freeRuns[size]!++;
  }

  #growPages(): void {
    const pages = new Int32Array(2 * this.#pages.length);
    pages.set(this.#pages);
    this.#pages = pages;
  }
}
