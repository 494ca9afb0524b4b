// Rows that are taken and given back one by one; given-back ones are reused.
import { SegmentedRows } from './segmented-rows.ts';

const NONE = -1;

/** Rows of `stride` words, known by number. The word `link` of a free row leads to the next free one. */
export class RowArena {
  readonly rows: SegmentedRows;
  readonly #link: number;
  #free = NONE;
  #used = 0;
  #live = 0;

  constructor(stride: number, link: number) {
    this.rows = new SegmentedRows(stride);
    this.#link = link;
  }

  /** Rows in use. */
  get live(): number {
    return this.#live;
  }

  /** One more than the largest number ever given out: where a scan over all rows ends. */
  get used(): number {
    return this.#used;
  }

  /** Bytes that taking so many rows adds at most. */
  growth(rows: number): number {
    return this.rows.growth(Math.max(this.#used, this.#live + rows));
  }

  /** A row, its words as its last user left them. */
  take(): number {
    this.#live++;
    if (this.#free !== NONE) {
      const row = this.#free;
      this.#free = this.rows.get(row, this.#link);
      return row;
    }
    this.rows.reserve(this.#used + 1);
    return this.#used++;
  }

  /** Gives a row back. */
  give(row: number): void {
    this.rows.set(row, this.#link, this.#free);
    this.#free = row;
    this.#live--;
  }
}
