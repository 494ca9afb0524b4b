// One owner's row in a match.
import type { OwnerSlot, PrefixMatch } from './types.ts';

/** Row of an owner, or −1 when it matched nothing; owners ascend. */
export function matchedRow({ count, owners }: PrefixMatch, owner: OwnerSlot): number {
  let low = 0;
  let high = count - 1;
  while (low <= high) {
    const middle = (low + high) >>> 1;
    const found = owners[middle]!;
    if (found === owner) return middle;
    if (found < owner) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

/** Leading blocks that an owner has on its device. */
export function deviceDepth(match: PrefixMatch, owner: OwnerSlot): number {
  const row = matchedRow(match, owner);
  return row < 0 ? 0 : match.depthPerTier[0]![row]!;
}
