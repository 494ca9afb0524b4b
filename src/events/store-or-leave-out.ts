// A store that the index refuses as it is full: what hangs on it is no lost event either.
import type { HashPairs, OwnerSlot, PrefixIndex, StoreOutcome, Tier, U64 } from '../kv/index.ts';
import { PointsmanError } from '../plugin/index.ts';

/** As the index's `store`; blocks that find no room are noted as left out. @throws PM_KV_INDEX_FULL as it does. */
export function storeOrLeaveOut(
  index: PrefixIndex,
  owner: OwnerSlot,
  tier: Tier,
  parent: U64 | null,
  external: HashPairs,
  local: HashPairs,
): StoreOutcome {
  try {
    return index.store(owner, tier, parent, external, local);
  } catch (thrown) {
    if (thrown instanceof PointsmanError && thrown.code === 'PM_KV_INDEX_FULL') {
      index.leftOut(owner, external.length / 2);
    }
    throw thrown;
  }
}
