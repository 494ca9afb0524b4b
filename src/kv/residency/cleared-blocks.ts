// Clears in pieces. A clear only notes that an owner's blocks are gone; they are taken away piece by piece, or when somebody comes
// across them, so that nothing ever sees them. Columns note which clears they have gone through, extents in which round they were
// looked at.
import { EXTENT } from './extent-layout.ts';
import type { Extents } from './extents.ts';
import type { NameColumns } from './name-columns.ts';
import type { OwnerState } from './owner-state.ts';
import type { StoreCopies } from './store-copies.ts';

const NONE = -1;
const LARGEST_EXTENT = 64;
/** Clears that columns note are counted modulo 256. */
const MOST_UNSWEPT = 200;

/** Cleared blocks that are still in place. */
export class ClearedBlocks {
  readonly #extents: Extents;
  readonly #columns: NameColumns;
  readonly #copies: StoreCopies;
  #unswept: OwnerState[] = [];
  /** Goes up with every clear: an extent that notes it holds no cleared block. */
  #round = 0;

  readonly #places: number;
  readonly #onSwept: (state: OwnerState) => void;

  /**
   * @param places places that one piece of clearing away looks at; up to 63 more where the last extent reaches beyond.
   * @param onSwept called with an owner that has none left.
   */
  constructor(
    extents: Extents,
    columns: NameColumns,
    copies: StoreCopies,
    places: number,
    onSwept: (state: OwnerState) => void,
  ) {
    this.#extents = extents;
    this.#columns = columns;
    this.#copies = copies;
    this.#places = places;
    this.#onSwept = onSwept;
  }

  /** Whether there are none. */
  get isSwept(): boolean {
    return this.#unswept.length === 0;
  }

  /** Owners that have some. */
  get owners(): number {
    return this.#unswept.length;
  }

  /** Notes that blocks of an owner were cleared just now, `before` that it was without cleared blocks until then. */
  add(state: OwnerState, before: boolean): void {
    this.#round++;
    if (before) this.#unswept.push(state);
    while (state.unswept > MOST_UNSWEPT) this.#sweepSome(state, this.#places);
  }

  /** Takes some away; whether there are none left. */
  sweep(): boolean {
    for (let places = this.#places; places > 0; ) {
      const state = this.#unswept[0];
      if (state === undefined) return true;
      places = this.#sweepSome(state, places);
    }
    return this.#unswept.length === 0;
  }

  /** Takes those in an extent away; the extent may be gone with them. */
  sweepExtent(extent: number): void {
    const { heads } = this.#extents.arena;
    if (heads.get(extent, EXTENT.SWEPT) === this.#round) return;
    heads.set(extent, EXTENT.SWEPT, this.#round);
    for (const state of this.#unswept) this.sweepPair(extent, state);
  }

  /** Takes those of one owner in an extent away; whether there were any. */
  sweepPair(extent: number, state: OwnerState): boolean {
    const columns = this.#columns;
    const first = columns.first(extent, state.owner);
    let stale = 0;
    for (let at = first; at !== NONE; at = columns.next(at)) stale |= state.staleTiers(columns.clearsOf(at));
    if (stale === 0) return false;
    const base = this.#extents.arena.baseOf(extent);
    const blocks = this.#extents.endOf(extent) - base;
    for (let offset = 0; offset < blocks; offset++) this.#sweepBlock(base + offset, offset, first, state);
    for (let at = first; at !== NONE; ) {
      const next = columns.next(at);
      columns.setClears(at, state.clears);
      if (columns.liveOf(at) === 0) columns.close(at, state);
      at = next;
    }
    return true;
  }

  #sweepBlock(block: number, offset: number, first: number, state: OwnerState): void {
    const columns = this.#columns;
    let before = 0;
    let after = 0;
    for (let at = first; at !== NONE; at = columns.next(at)) {
      const tiers = columns.tiersOf(at, offset);
      const left = tiers & ~state.staleTiers(columns.clearsOf(at));
      before |= tiers;
      after |= left;
      if (left === tiers) continue;
      this.#copies.forget(LARGEST_EXTENT * at + offset, tiers & ~left);
      if (left === 0) columns.delete(at, offset, block, state);
      else columns.setTiers(at, offset, left);
    }
    if (before !== after) this.#extents.setTiers(block, state.owner, after);
  }

  /** Takes some of one owner's away; how many of so many places were not looked at because it has none left. */
  #sweepSome(state: OwnerState, places: number): number {
    let left = places;
    while (state.cursor !== NONE && left > 0) {
      const extent = this.#columns.extentOf(state.cursor);
      state.cursor = this.#columns.afterOfOwner(state.cursor);
      left -= this.#extents.arena.rowsOf(extent);
      this.sweepPair(extent, state);
    }
    if (state.cursor !== NONE) return 0;
    state.unswept = 0;
    this.#unswept = this.#unswept.filter((other) => other !== state);
    this.#onSwept(state);
    return left;
  }
}
