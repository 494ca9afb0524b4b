// Applies engines' events to the prefix index, in the order of each owner's stream: decode, take stock of the
// sequence, hand on. Never throws on what an engine sent: bad events are counted on the owner's feed.
import type { OwnerSlot } from '../kv/index.ts';
import type { MetricLabels } from '../observe/index.ts';
import { type Clock, errorText } from '../plugin/index.ts';
import { EventApplication, type EventApplicationOptions } from './apply-event.ts';
import { decodeEventBatch } from './decode-batch.ts';
import { type EventFeed, OwnerFeed } from './event-feed.ts';
import type { KvEvent, KvEventBatch, KvEventSink } from './types.ts';

/** What an applier works on. */
export interface KvEventApplierOptions extends EventApplicationOptions {
  /** Whether a slot is anybody's; batches for free ones are dropped. Without it all are. */
  readonly isOwner?: (owner: OwnerSlot) => boolean;
  /** Owner of another rank of the same worker, for batches that name their rank; without it the connection's owner is meant. */
  readonly ownerOfRank?: (owner: OwnerSlot, rank: number) => OwnerSlot | null;
  /** The engine started anew; its blocks are already forgotten. */
  readonly onRestart?: (owner: OwnerSlot) => void;
  readonly clock: Clock;
}

/** Sink of all event sources of a router. */
export interface KvEventApplier extends KvEventSink {
  /** As `onBatch`, for a batch that is already decoded. */
  onDecodedBatch(owner: OwnerSlot, sequence: number, batch: KvEventBatch): void;
  /** State of an owner's stream; null before its first batch. The object keeps changing. */
  feed(owner: OwnerSlot): EventFeed | null;
  /** Blocks of an owner that wait for their parent. */
  orphanBlocks(owner: OwnerSlot): number;
  /** ms since the owner's newest batch; null before its first. */
  ageMs(owner: OwnerSlot): number | null;
  /** The owner was cleared although its engine may live on: until the engine clears too, the index may be wrong about it. */
  cleared(owner: OwnerSlot): void;
  /** The owner was cleared because its engine started anew; its stream is expected to begin with batch 0. */
  restarted(owner: OwnerSlot): void;
  /** Forgets the stream of a slot that gets another owner; the index is left alone. */
  forget(owner: OwnerSlot): void;
}

/** Creates the applier. */
export function createKvEventApplier(options: KvEventApplierOptions): KvEventApplier {
  const feeds = new Map<OwnerSlot, OwnerFeed>();
  const application = new EventApplication(options);
  const arrive = (owner: OwnerSlot, sequence: number): OwnerFeed => {
    let feed = feeds.get(owner);
    if (feed === undefined) {
      feed = new OwnerFeed();
      feeds.set(owner, feed);
    }
    const missedBefore = feed.missedBatches;
    const step = feed.step(sequence, options.clock.now());
    options.metrics.count('pointsman_kv_event_batches_total');
    if (feed.missedBatches > missedBefore) {
      options.metrics.count(
        'pointsman_kv_event_batches_missed_total',
        undefined,
        feed.missedBatches - missedBefore,
      );
    }
    if (step === 'restart') {
      // One connection may carry several ranks; they restarted together.
      for (const started of [owner, ...feed.otherOwners]) {
        options.index.clear(started, 'all');
        application.forget(started);
      }
      feed.otherOwners.clear();
      options.metrics.count('pointsman_kv_event_restarts_total');
      options.onRestart?.(owner);
    }
    return feed;
  };
  const applyBatch = (connection: OwnerSlot, feed: OwnerFeed, batch: KvEventBatch): void => {
    const owner =
      batch.rank === null || options.ownerOfRank === undefined
        ? connection
        : options.ownerOfRank(connection, batch.rank);
    if (owner !== null && owner !== connection) feed.otherOwners.add(owner);
    for (const event of batch.events) {
      options.metrics.count('pointsman_kv_events_total', labelsOf(event.kind));
      if (owner === null) {
        application.reject(feed, 'unknown_rank', storedBlocks(event));
        continue;
      }
      try {
        application.apply(owner, feed, event);
      } catch (thrown) {
        feed.lastError = errorText(thrown);
        application.reject(feed, 'failed', storedBlocks(event));
      }
    }
  };
  return {
    onBatch(owner, sequence, payload) {
      if (options.isOwner?.(owner) === false) return;
      const feed = arrive(owner, sequence);
      let batch: KvEventBatch;
      try {
        batch = decodeEventBatch(payload);
      } catch (thrown) {
        feed.lastError = errorText(thrown);
        feed.stale = true;
        application.reject(feed, 'undecodable', 0);
        return;
      }
      applyBatch(owner, feed, batch);
    },
    onDecodedBatch(owner, sequence, batch) {
      if (options.isOwner?.(owner) === false) return;
      applyBatch(owner, arrive(owner, sequence), batch);
    },
    feed: (owner) => feeds.get(owner) ?? null,
    orphanBlocks: (owner) => application.orphanBlocks(owner),
    ageMs(owner) {
      const feed = feeds.get(owner);
      return feed === undefined ? null : Math.max(0, options.clock.now() - feed.lastBatchAt);
    },
    cleared(owner) {
      application.cleared(owner);
      const feed = feeds.get(owner);
      if (feed !== undefined) feed.stale = true;
    },
    restarted(owner) {
      application.forget(owner);
      feeds.get(owner)?.startAnew();
    },
    forget(owner) {
      application.forget(owner);
      feeds.delete(owner);
    },
  };
}

/** Blocks that a store announces; 0 for other events. */
function storedBlocks(event: KvEvent): number {
  return event.kind === 'stored' ? event.external.length / 2 : 0;
}

/** Label objects by value, so that counting allocates nothing; values come from fixed lists. */
const LABELS = new Map<string, MetricLabels>();

function labelsOf(kind: KvEvent['kind']): MetricLabels {
  let labels = LABELS.get(kind);
  if (labels === undefined) {
    labels = { kind };
    LABELS.set(kind, labels);
  }
  return labels;
}
