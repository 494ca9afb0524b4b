// One page of a dump: a scan over the holdings by id. A cursor is the holding's id times the number of tiers, plus the tier, so
// that a page may end between two tiers of one holding.
import type { Holdings } from './holdings.ts';
import { BLOCK, type ResidentBlocks } from './resident-blocks.ts';
import { type DumpedBlock, type DumpPage, TIERS } from './types.ts';

/** Up to `limit` rows from `cursor` on. */
export function dumpPage(
  holdings: Holdings,
  blocks: ResidentBlocks,
  cursor: number,
  limit: number,
): DumpPage {
  const page: DumpedBlock[] = [];
  const end = holdings.used * TIERS.length;
  let at = cursor;
  for (; at < end && page.length < limit; at++) {
    const holding = Math.floor(at / TIERS.length);
    const tier = at % TIERS.length;
    if (((holdings.tiersOf(holding) >> tier) & 1) === 0) continue;
    const block = holdings.blockOf(holding);
    const position = blocks.positionOf(block);
    page.push({
      owner: holdings.ownerOf(holding),
      tier: TIERS[tier]!,
      external: { lo: holdings.externalLo(holding) >>> 0, hi: holdings.externalHi(holding) >>> 0 },
      sequence: blocks.hashOf(block, BLOCK.SEQUENCE),
      local: blocks.hashOf(block, BLOCK.LOCAL),
      parent: position === 0 ? null : blocks.hashOf(block, BLOCK.PARENT),
      position,
    });
  }
  return { blocks: page, cursor: at < end ? at : null };
}
