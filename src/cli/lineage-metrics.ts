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
  readonly #counted = new Map<string, number>();

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
  }

  /** Counts what was added since the last time. */
  add(index: LineageStats, updates: SessionUpdatesStats): void {
    const { lateStores, refused, staleMatches } = updates;
    this.#forgotten('evicted', index.evictedSessions);
    this.#forgotten('expired', index.expiredSessions);
    this.#forgotten('frontier', index.evictedFrontiers);
    this.#updates('applied', updates.applied - refused - staleMatches - lateStores);
    this.#updates('refused', refused);
    this.#updates('stale_match', staleMatches);
    this.#updates('late_store', lateStores);
    this.#updates('dropped_match', updates.droppedMatches);
    this.#updates('dropped_store', updates.droppedStores);
    this.#updates('folded_removal', updates.foldedRemovals);
  }

  #forgotten(reason: string, total: number): void {
    const more = this.#more(reason, total);
    if (more > 0) this.#metrics.count('pointsman_lineage_forgotten_total', { reason }, more);
  }

  #updates(outcome: string, total: number): void {
    const more = this.#more(outcome, total);
    if (more > 0) this.#metrics.count('pointsman_lineage_updates_total', { outcome }, more);
  }

  #more(what: string, total: number): number {
    const more = total - (this.#counted.get(what) ?? 0);
    this.#counted.set(what, total);
    return more;
  }
}
