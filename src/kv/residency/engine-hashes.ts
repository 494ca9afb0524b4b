// From the router's hashes back to the engine's: a run of a prompt's chain as one owner's engine names it.
import { BLOCK, BLOCK_WORDS } from './extent-layout.ts';
import type { Extents } from './extents.ts';
import { NAME_WORDS } from './name-columns.ts';
import type { OwnerState } from './owner-state.ts';
import type { Residencies } from './residencies.ts';
import { SEGMENT_MASK, SEGMENT_SHIFT, type SegmentedRows } from './segmented-rows.ts';

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
    const block = at === from ? extents.locate(sequence, at) : extents.find(sequence, at);
    if (block === NONE) return at - from;
    const extent = extents.arena.runOf(block);
    if (!state.isSwept) cleared.sweepPair(extent, state);
    const most = Math.min(to - at, extents.endOf(extent) - block);
    const run = extents.matching(block, most, sequence, at);
    const first = columns.first(extent, state.owner);
    const written = writeRun(extents, residencies, first, block, run, out, 2 * (at - from));
    at += written;
    if (written < run) return at - from;
  }
  return to - from;
}

/** Writes the names of `run` blocks of an extent to `out` from `to` on, up to the first that no column of a list holds; how many. */
function writeRun(
  { arena }: Extents,
  { columns }: Residencies,
  first: number,
  block: number,
  run: number,
  out: Uint32Array,
  to: number,
): number {
  const offset = block - arena.baseOf(arena.runOf(block));
  for (let done = 0; done < run; ) {
    let column = first;
    while (column !== NONE && columns.tiersOf(column, offset + done) === 0) column = columns.next(column);
    if (column === NONE) return done;
    let end = done + 1;
    // Of several columns the newest that has the block counts: only of the first of all it is sure that no other comes before it.
    while (column === first && end < run && columns.tiersOf(column, offset + end) !== 0) end++;
    if (columns.isNamed(column)) {
      copyPairs(
        columns.names.rows,
        columns.nameAt(column, offset + done),
        NAME_WORDS,
        end - done,
        out,
        to + 2 * done,
      );
    } else {
      copyPairs(arena.rows, block + done, BLOCK_WORDS, end - done, out, to + 2 * done);
    }
    done = end;
  }
  return run;
}

/** Copies the first two words of `count` neighbouring rows of a run, which all lie in one segment. */
function copyPairs(
  rows: SegmentedRows,
  first: number,
  stride: number,
  count: number,
  out: Uint32Array,
  to: number,
): void {
  const words = rows.segments[first >>> SEGMENT_SHIFT]!;
  let at = (first & SEGMENT_MASK) * stride;
  for (let pair = to; pair < to + 2 * count; pair += 2) {
    out[pair] = words[at + BLOCK.SEQUENCE]!;
    out[pair + 1] = words[at + BLOCK.SEQUENCE + 1]!;
    at += stride;
  }
}
