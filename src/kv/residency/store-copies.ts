// How many copies of a block an engine announced under one name on one tier, where that is more than one: engines that keep two
// copies of a block announce both, and remove each.
import { RowArena } from './row-arena.ts';
import { RowTable } from './row-table.ts';

const NAME = 0;
const TIER = 1;
const MORE = 2;
const STRIDE = 3;
const NONE = -1;

/** Copies beyond the first, per name and tier. */
export class StoreCopies {
  readonly #arena = new RowArena(STRIDE, MORE);
  readonly #rows = this.#arena.rows;
  readonly #table = new RowTable(this.#rows, NAME);

  /** Bytes of all arrays. */
  get bytes(): number {
    return this.#rows.bytes + this.#table.bytes;
  }

  /** Names and tiers with more copies than one. */
  get count(): number {
    return this.#table.count;
  }

  /** Notes one more copy. */
  add(name: number, tier: number): void {
    let row = this.#table.find(name, tier);
    if (row === NONE) {
      row = this.#arena.take();
      this.#rows.set(row, NAME, name);
      this.#rows.set(row, TIER, tier);
      this.#rows.set(row, MORE, 0);
      this.#table.insert(row);
    }
    this.#rows.set(row, MORE, this.#rows.get(row, MORE) + 1);
  }

  /** Takes one copy away; false when there is only the first. */
  take(name: number, tier: number): boolean {
    const row = this.#table.count === 0 ? NONE : this.#table.find(name, tier);
    if (row === NONE) return false;
    const more = this.#rows.get(row, MORE) - 1;
    this.#rows.set(row, MORE, more);
    if (more === 0) this.#drop(row);
    return true;
  }

  /** Forgets the copies of a name on each of these tiers. */
  forget(name: number, tiers: number): void {
    if (this.#table.count === 0) return;
    for (let tier = 0; tiers >> tier !== 0; tier++) {
      const row = ((tiers >> tier) & 1) === 0 ? NONE : this.#table.find(name, tier);
      if (row !== NONE) this.#drop(row);
    }
  }

  #drop(row: number): void {
    this.#table.delete(row);
    this.#arena.give(row);
  }
}
