// The router's prefix index: one for all partitions, within limits.index_bytes, with its metrics.
import type { Fleet } from '../fleet/index.ts';
import {
  type BlockHasher,
  createPrefixIndex,
  type FollowedIndex,
  type OwnerSlot,
  type PrefixIndex,
  TIERS,
} from '../kv/index.ts';
import type { Metrics } from '../observe/index.ts';

const EVICTED = { reason: 'evicted' };
const UNKNOWN = { reason: 'unknown' };

/**
 * An empty prefix index whose bytes, blocks and evictions are counted.
 * @param later runs pieces of clears soon, never at once.
 * @param countStores whether the copies an owner's engine announces are counted now.
 */
export function createIndex(
  hasher: BlockHasher,
  maxBytes: number,
  later: (work: () => void) => void,
  metrics: Metrics,
  countStores: (owner: OwnerSlot) => boolean,
): FollowedIndex {
  const onEvicted = (names: number): void =>
    metrics.count('pointsman_kv_index_evicted_total', undefined, names);
  const onNotHeld = (evicted: number, unknown: number): void => {
    metrics.count('pointsman_kv_index_removes_not_held_total', EVICTED, evicted);
    metrics.count('pointsman_kv_index_removes_not_held_total', UNKNOWN, unknown);
  };
  const index = createPrefixIndex({ hasher, maxBytes, later, onEvicted, onNotHeld, countStores });
  metrics.gauge('pointsman_kv_index_bytes', () => index.stats().bytes);
  metrics.gauge('pointsman_kv_index_blocks', () => index.stats().blocks);
  return index;
}

/** Shows how many blocks the workers of a fleet hold on each tier. */
export function showTiers(index: Pick<PrefixIndex, 'blocksOf'>, fleet: Fleet, metrics: Metrics): void {
  metrics.gauge('pointsman_kv_index_worker_blocks', () => {
    const held = TIERS.map((tier) => ({ labels: { tier }, value: 0 }));
    for (const { slots } of fleet.workers()) {
      for (const slot of slots) {
        const blocks = index.blocksOf(slot);
        for (const [tier, sample] of held.entries()) sample.value += blocks[tier] ?? 0;
      }
    }
    return held;
  });
}
