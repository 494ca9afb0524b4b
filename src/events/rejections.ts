// Counts what was refused: on the stream's feed, for worker status, and in metrics; in events and in blocks, as one event of many
// blocks is a larger loss than many of one.
import type { MetricLabels, Metrics } from '../observe/index.ts';
import type { OwnerFeed, RejectReason } from './event-feed.ts';

/** Counts refusals. */
export class Rejections {
  readonly #metrics: Metrics;

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
  }

  /** Counts `events` events with together `blocks` blocks. */
  count(feed: OwnerFeed, reason: RejectReason, blocks: number, events = 1): void {
    feed.reject(reason, blocks, events);
    if (events > 0) this.#metrics.count('pointsman_kv_events_rejected_total', labelsOf(reason), events);
    if (blocks > 0) this.#metrics.count('pointsman_kv_blocks_rejected_total', labelsOf(reason), blocks);
  }
}

/** Label objects by value, so that counting allocates nothing; values come from fixed lists. */
const LABELS = new Map<string, MetricLabels>();

function labelsOf(reason: RejectReason): MetricLabels {
  let labels = LABELS.get(reason);
  if (labels === undefined) {
    labels = { reason };
    LABELS.set(reason, labels);
  }
  return labels;
}
