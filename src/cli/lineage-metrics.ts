// The session prefix index in metrics.
import type { LineageStats, SessionPrefixIndex, SessionUpdates, SessionUpdatesStats } from '../kv/index.ts';
import type { Metrics } from '../observe/index.ts';

/** Shows what is kept now; zeros while nothing is. */
export function showLineage(
  metrics: Metrics,
  kept: () => { readonly index: SessionPrefixIndex; readonly updates: SessionUpdates } | null,
): void {
  metrics.gauge('pointsman_lineage_sessions', () => kept()?.index.stats().sessions ?? 0);
  metrics.gauge('pointsman_lineage_frontiers', () => kept()?.index.stats().frontiers ?? 0);
  metrics.gauge('pointsman_lineage_blocks', () => kept()?.index.stats().nodes ?? 0);
  metrics.gauge('pointsman_lineage_bytes', () => kept()?.index.stats().usedBytes ?? 0);
  metrics.gauge('pointsman_lineage_updates_waiting', () => kept()?.updates.stats().waiting ?? 0);
}

/** What became of updates and sessions, counted as an index goes on. */
export class LineageCounts {
  readonly #metrics: Metrics;
  #index: LineageStats | null = null;
  #updates: SessionUpdatesStats | null = null;

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
  }

  /** Counts what was added since the last time. */
  add(index: LineageStats, updates: SessionUpdatesStats): void {
    const [before, done] = [this.#index, this.#updates];
    this.#index = index;
    this.#updates = updates;
    this.#forgotten('evicted', index.evictedSessions - (before?.evictedSessions ?? 0));
    this.#forgotten('expired', index.expiredSessions - (before?.expiredSessions ?? 0));
    this.#forgotten('frontier', index.evictedFrontiers - (before?.evictedFrontiers ?? 0));
    this.#updated('applied', settled(updates) - (done === null ? 0 : settled(done)));
    this.#updated('refused', updates.refused - (done?.refused ?? 0));
    this.#updated('stale_match', updates.staleMatches - (done?.staleMatches ?? 0));
    this.#updated('late_store', updates.lateStores - (done?.lateStores ?? 0));
    this.#updated('dropped_match', updates.droppedMatches - (done?.droppedMatches ?? 0));
    this.#updated('dropped_store', updates.droppedStores - (done?.droppedStores ?? 0));
    this.#updated('folded_removal', updates.foldedRemovals - (done?.foldedRemovals ?? 0));
  }

  #forgotten(reason: string, more: number): void {
    if (more > 0) this.#metrics.count('pointsman_lineage_forgotten_total', { reason }, more);
  }

  #updated(outcome: string, more: number): void {
    if (more > 0) this.#metrics.count('pointsman_lineage_updates_total', { outcome }, more);
  }
}

/** Updates that did what they say. */
function settled({ applied, lateStores, refused, staleMatches }: SessionUpdatesStats): number {
  return applied - refused - staleMatches - lateStores;
}
