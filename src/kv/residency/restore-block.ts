// Puts one row of a dump into an index whose owner need not hold the block before it: the row itself says where it stands.
import type { Extents } from './extents.ts';
import type { Residencies } from './residencies.ts';
import { tierIndex } from './tier-bits.ts';
import type { CopyableIndex, DumpedBlock } from './types.ts';

const NONE = -1;

/** As {@link CopyableIndex.restoreBlock}, where there is room and nothing is left to sweep. */
export function restoreBlock(
  residencies: Residencies,
  extents: Extents,
  row: DumpedBlock,
  behind: Parameters<CopyableIndex['restoreBlock']>[1],
): boolean {
  const state = residencies.toFill(row.owner);
  const sequence = Uint32Array.of(row.sequence.lo, row.sequence.hi);
  const other = behind === null ? undefined : residencies.of(behind.owner);
  const nameBefore =
    behind === null || other === undefined
      ? NONE
      : residencies.names.find(other, behind.external.lo | 0, behind.external.hi | 0);
  const before = nameBefore === NONE ? NONE : residencies.blockOf(nameBefore);
  const lo = row.external.lo | 0;
  const hi = row.external.hi | 0;
  const name = residencies.names.find(state, lo, hi);
  let block = extents.findAfter(before, sequence, 0);
  if (name !== NONE) {
    if (residencies.blockOf(name) !== block) return false;
    residencies.addTier(name, tierIndex(row.tier), state);
    return true;
  }
  if (block === NONE) {
    const local = Uint32Array.of(row.local.lo, row.local.hi);
    block =
      before === NONE
        ? extents.addApart(local, sequence, row.position, row.parent)
        : extents.add(local, sequence, 0, before, 1);
  }
  const isNamed = row.external.lo !== row.sequence.lo || row.external.hi !== row.sequence.hi;
  residencies.add(block, tierIndex(row.tier), isNamed, lo, hi, state);
  return true;
}
