// One page of a dump: a scan over the columns of names by number. A cursor is (column × 64 + place) × the number of tiers + tier, so
// that a page may end between two tiers of one name.
import { BLOCK } from './extent-layout.ts';
import type { Extents } from './extents.ts';
import type { Residencies } from './residencies.ts';
import { type DumpedBlock, type DumpPage, TIERS } from './types.ts';

const PLACES = 64 * TIERS.length;

/** Up to `limit` rows from `cursor` on. */
export function dumpPage(
  residencies: Residencies,
  extents: Extents,
  cursor: number,
  limit: number,
): DumpPage {
  const { columns } = residencies;
  const page: DumpedBlock[] = [];
  const end = columns.used * PLACES;
  let at = cursor;
  while (at < end && page.length < limit) {
    const column = Math.floor(at / PLACES);
    const offset = Math.floor(at / TIERS.length) % 64;
    const tiers = columns.liveOf(column) === 0 ? 0 : residencies.validTiersOf(column, offset);
    if (tiers === 0) {
      // The rest of a column that was given back is skipped, and of a name that is not there.
      const step = columns.liveOf(column) === 0 ? PLACES : TIERS.length;
      at += step - (at % step);
      continue;
    }
    const tier = at % TIERS.length;
    at++;
    if (((tiers >> tier) & 1) === 0) continue;
    page.push({ ...nameRow(residencies, extents, column, offset), tier: TIERS[tier]! });
  }
  return { blocks: page, cursor: at < end ? at : null };
}

/** What a dump says of the name at a place of a column, its tier apart. */
export function nameRow(
  { columns }: Residencies,
  extents: Extents,
  column: number,
  offset: number,
): Omit<DumpedBlock, 'tier'> {
  const block = extents.arena.baseOf(columns.extentOf(column)) + offset;
  const sequence = extents.hashOf(block, BLOCK.SEQUENCE);
  return {
    owner: columns.ownerOf(column),
    external: columns.isNamed(column) ? columns.hashAt(column, offset) : sequence,
    sequence,
    local: extents.hashOf(block, BLOCK.LOCAL),
    parent: extents.parentOf(block),
    position: extents.positionOf(block),
  };
}
