// From the router's hashes back to the engine's: a run of a prompt's chain as one owner's engine names it.
import { BLOCK } from './extent-layout.ts';
import type { Extents } from './extents.ts';
import type { OwnerState } from './owner-state.ts';
import type { Residencies } from './residencies.ts';

const NONE = -1;

/** Writes the engine's hashes (lo, hi) of blocks [from, to) to `out`, up to the first the owner does not hold; how many. */
export function writeEngineHashes(
  extents: Extents,
  residencies: Residencies,
  state: OwnerState,
  sequence: Uint32Array,
  from: number,
  to: number,
  out: Uint32Array,
): number {
  const { columns, cleared } = residencies;
  for (let at = from; at < to; ) {
    let block = at === from ? extents.locate(sequence, at) : extents.find(sequence, at);
    if (block === NONE) return at - from;
    const extent = extents.arena.runOf(block);
    if (!state.isSwept) cleared.sweepPair(extent, state);
    const base = extents.arena.baseOf(extent);
    const end = extents.endOf(extent);
    const first = columns.first(extent, state.owner);
    if (first === NONE) return at - from;
    do {
      const offset = block - base;
      let column = first;
      while (column !== NONE && columns.tiersOf(column, offset) === 0) column = columns.next(column);
      if (column === NONE) return at - from;
      const to2 = 2 * (at - from);
      const rows = columns.isNamed(column) ? columns.names.rows : extents.arena.rows;
      const row = columns.isNamed(column) ? columns.nameAt(column, offset) : block;
      out[to2] = rows.get(row, BLOCK.SEQUENCE);
      out[to2 + 1] = rows.get(row, BLOCK.SEQUENCE + 1);
      at++;
      block++;
    } while (at < to && block < end && extents.is(block, sequence, at));
  }
  return to - from;
}
