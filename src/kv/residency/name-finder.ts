// Finds an owner's names by engine hash. Whoever comes across cleared blocks here takes them away first.
import type { ClearedBlocks } from './cleared-blocks.ts';
import { BLOCK } from './extent-layout.ts';
import type { Extents } from './extents.ts';
import type { NameColumns } from './name-columns.ts';
import type { OwnerState } from './owner-state.ts';
import { mixPair } from './pair-mix.ts';

const NONE = -1;
/** A name is its column × 64 + the block's place in the extent. */
export const NAME_SHIFT = 6;
/** The place in the extent as a mask. */
export const OFFSET_MASK: number = 2 ** NAME_SHIFT - 1;

/** Names of all owners, by engine hash. */
export class NameFinder {
  readonly #extents: Extents;
  readonly #columns: NameColumns;
  readonly #cleared: ClearedBlocks;

  constructor(extents: Extents, columns: NameColumns, cleared: ClearedBlocks) {
    this.#extents = extents;
    this.#columns = columns;
    this.#cleared = cleared;
  }

  /** The owner's name with this engine hash (signed halves), −1 when it has none. */
  find(state: OwnerState, lo: number, hi: number): number {
    return this.findMixed(state, lo, hi, mixPair(lo, hi));
  }

  /** As `find`, with the mixed hash of the engine hash. */
  findMixed(state: OwnerState, lo: number, hi: number, mix: number): number {
    const columns = this.#columns;
    const row = state.names?.findMixed(lo, hi, mix) ?? NONE;
    if (row === NONE) return this.#findRouterName(state, lo, hi, mix);
    const name = columns.nameOf(row);
    if (state.isSwept || !this.#cleared.sweepPair(columns.extentOf(name >>> NAME_SHIFT), state)) return name;
    return this.findMixed(state, lo, hi, mix);
  }

  /** As `find`, for an engine hash that mostly is the one the owner stored last. */
  findParent(state: OwnerState, lo: number, hi: number): number {
    const name = state.latest;
    if (name !== NONE && state.isSwept && this.#isNameOf(name, state, lo, hi)) return name;
    return this.find(state, lo, hi);
  }

  /** Whether a number that was a name's once is that of the owner's name with this engine hash. No cleared block may be in place. */
  #isNameOf(name: number, state: OwnerState, lo: number, hi: number): boolean {
    const columns = this.#columns;
    const column = name >>> NAME_SHIFT;
    const offset = name & OFFSET_MASK;
    if (columns.liveOf(column) === 0 || columns.ownerOf(column) !== state.owner) return false;
    if (columns.tiersOf(column, offset) === 0) return false;
    const isNamed = columns.isNamed(column);
    const { arena } = this.#extents;
    const rows = isNamed ? columns.names.rows : arena.rows;
    const row = isNamed ? columns.nameAt(column, offset) : arena.baseOf(columns.extentOf(column)) + offset;
    return rows.get(row, BLOCK.SEQUENCE) === lo && rows.get(row, BLOCK.SEQUENCE + 1) === hi;
  }

  #findRouterName(state: OwnerState, lo: number, hi: number, mix: number): number {
    const columns = this.#columns;
    const block = state.routerNames?.findMixed(lo, hi, mix) ?? NONE;
    if (block === NONE) return NONE;
    const { arena } = this.#extents;
    const extent = arena.runOf(block);
    if (!state.isSwept && this.#cleared.sweepPair(extent, state)) return this.findMixed(state, lo, hi, mix);
    const offset = block - arena.baseOf(extent);
    let column = columns.first(extent, state.owner);
    while (columns.isNamed(column) || columns.tiersOf(column, offset) === 0) column = columns.next(column);
    return (column << NAME_SHIFT) + offset;
  }
}
