// Applies engines' events to the prefix index, in the order of each owner's stream: decode, check, hash the tokens once per
// event, store or remove. Never throws on what an engine sent: bad events are counted on the owner's feed.
import type { BlockHasher, OwnerSlot, PrefixIndex, U64 } from '../kv/index.ts';
import type { MetricLabels, Metrics } from '../observe/index.ts';
import { type Clock, errorText } from '../plugin/index.ts';
import { decodeEventBatch } from './decode-batch.ts';
import { type EventFeed, OwnerFeed, type RejectReason } from './event-feed.ts';
import type { BlockStoredEvent, KvEvent, KvEventBatch, KvEventSink, KvHintOutcomeEvent } from './types.ts';

/** What an applier works on. */
export interface KvEventApplierOptions {
  readonly index: PrefixIndex;
  readonly hasher: BlockHasher;
  /** Seed of local hashes for an adapter and a cache salt. */
  readonly blockHashSeed: (scope: {
    readonly loraName: string | null;
    readonly cacheSalt: string | null;
  }) => U64;
  /** Whether a slot is anybody's; batches for free ones are dropped. Without it all are. */
  readonly isOwner?: (owner: OwnerSlot) => boolean;
  /** Tokens per block of the owner's model; null = not known yet. */
  readonly blockSizeOf: (owner: OwnerSlot) => number | null;
  /** Called with the block size of the first store with blocks while `blockSizeOf` is null. */
  readonly learnBlockSize: (owner: OwnerSlot, blockSize: number) => void;
  /** Owner of another rank of the same worker, for batches that name their rank; without it the connection's owner is meant. */
  readonly ownerOfRank?: (owner: OwnerSlot, rank: number) => OwnerSlot | null;
  readonly onHintOutcome?: (owner: OwnerSlot, outcome: KvHintOutcomeEvent) => void;
  /** The engine started anew; its blocks are already forgotten. */
  readonly onRestart?: (owner: OwnerSlot) => void;
  readonly metrics: Metrics;
  readonly clock: Clock;
}

/** Sink of all event sources of a router. */
export interface KvEventApplier extends KvEventSink {
  /** As `onBatch`, for a batch that is already decoded. */
  onDecodedBatch(owner: OwnerSlot, sequence: number, batch: KvEventBatch): void;
  /** State of an owner's stream; null before its first batch. The object keeps changing. */
  feed(owner: OwnerSlot): EventFeed | null;
  /** ms since the owner's newest batch; null before its first. */
  ageMs(owner: OwnerSlot): number | null;
  /** The owner was cleared although its engine may live on: until the engine clears too, the index may be wrong about it. */
  cleared(owner: OwnerSlot): void;
  /** The owner was cleared because its engine started anew; its stream is expected to begin with batch 0. */
  restarted(owner: OwnerSlot): void;
  /**
   * The index has this owner's blocks from a snapshot or a peer, up to batch `watermark`: the next batch with another number than the
   * one behind it is a gap, or an engine that started anew. Null = it is not known up to which batch; any next one will do.
   */
  resume(owner: OwnerSlot, watermark: number | null, stale: boolean): void;
  /** Forgets the stream of a slot that gets another owner; the index is left alone. */
  forget(owner: OwnerSlot): void;
}

/** Creates the applier. */
export function createKvEventApplier(options: KvEventApplierOptions): KvEventApplier {
  const feeds = new Map<OwnerSlot, OwnerFeed>();
  const feedOf = (owner: OwnerSlot): OwnerFeed => {
    let feed = feeds.get(owner);
    if (feed === undefined) {
      feed = new OwnerFeed();
      feeds.set(owner, feed);
    }
    return feed;
  };
  const arrive = (owner: OwnerSlot, sequence: number): OwnerFeed => {
    const feed = feedOf(owner);
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
      options.index.clear(owner, 'all');
      // One connection may carry several ranks; they restarted together.
      for (const other of feed.otherOwners) options.index.clear(other, 'all');
      feed.otherOwners.clear();
      options.metrics.count('pointsman_kv_event_restarts_total');
      options.onRestart?.(owner);
    }
    return feed;
  };
  const reject = (feed: OwnerFeed, reason: RejectReason): void => {
    feed.reject(reason);
    options.metrics.count('pointsman_kv_events_rejected_total', labelsOf('reason', reason));
  };
  const applyBatch = (connection: OwnerSlot, feed: OwnerFeed, batch: KvEventBatch): void => {
    const owner =
      batch.rank === null || options.ownerOfRank === undefined
        ? connection
        : options.ownerOfRank(connection, batch.rank);
    if (owner !== null && owner !== connection) feed.otherOwners.add(owner);
    for (const event of batch.events) {
      options.metrics.count('pointsman_kv_events_total', labelsOf('kind', event.kind));
      if (owner === null) {
        reject(feed, 'unknown_rank');
        continue;
      }
      try {
        const reason = applyEvent(options, owner, feed, event);
        if (reason !== null) reject(feed, reason);
      } catch (thrown) {
        feed.lastError = errorText(thrown);
        reject(feed, 'failed');
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
        reject(feed, 'undecodable');
        return;
      }
      applyBatch(owner, feed, batch);
    },
    onDecodedBatch(owner, sequence, batch) {
      if (options.isOwner?.(owner) === false) return;
      applyBatch(owner, arrive(owner, sequence), batch);
    },
    feed: (owner) => feeds.get(owner) ?? null,
    ageMs(owner) {
      const feed = feeds.get(owner);
      return feed === undefined ? null : Math.max(0, options.clock.now() - feed.lastBatchAt);
    },
    cleared(owner) {
      const feed = feeds.get(owner);
      if (feed !== undefined) feed.stale = true;
    },
    restarted(owner) {
      feeds.get(owner)?.startAnew();
    },
    resume(owner, watermark, stale) {
      feedOf(owner).resume(watermark, stale);
    },
    forget(owner) {
      feeds.delete(owner);
    },
  };
}

function applyEvent(
  options: KvEventApplierOptions,
  owner: OwnerSlot,
  feed: OwnerFeed,
  event: KvEvent,
): RejectReason | null {
  switch (event.kind) {
    case 'stored':
      return feed.filter.check(event.scope) ?? applyStore(options, owner, feed, event);
    case 'removed': {
      const reason = feed.filter.check(event.scope);
      if (reason !== null) return reason;
      const removed = options.index.remove(owner, event.tier, event.external);
      feed.unknownRemoves += event.external.length / 2 - removed;
      return null;
    }
    case 'cleared':
      options.index.clear(owner, 'all');
      // Nothing that was missed before matters any more.
      feed.stale = false;
      return null;
    case 'hint-outcome':
      options.onHintOutcome?.(owner, event);
      return null;
  }
}

function applyStore(
  options: KvEventApplierOptions,
  owner: OwnerSlot,
  feed: OwnerFeed,
  event: BlockStoredEvent,
): RejectReason | null {
  const { blockSize, external, tokenIds } = event;
  const expected = options.blockSizeOf(owner);
  if (expected !== null && expected !== blockSize) {
    feed.mismatchedBlockSize = blockSize;
    return 'block_size';
  }
  if (external.length === 0) return null;
  if (tokenIds.length !== (external.length / 2) * blockSize) return 'token_count';
  // Only now: a size that the event's own tokens contradict must not become the model's.
  if (expected === null) options.learnBlockSize(owner, blockSize);
  const { local } = options.hasher.hashPrompt(tokenIds, blockSize, options.blockHashSeed(event));
  switch (options.index.store(owner, event.tier, event.parent, external, local)) {
    case 'unknown-parent':
      return 'unknown_parent';
    case 'self-reference':
      return 'self_reference';
    case 'stored':
    case 'duplicate':
      return null;
  }
}

/** Label objects by value, so that counting allocates nothing; values come from fixed lists. */
const LABELS = new Map<string, MetricLabels>();

function labelsOf(name: 'reason' | 'kind', value: string): MetricLabels {
  let labels = LABELS.get(value);
  if (labels === undefined) {
    labels = { [name]: value };
    LABELS.set(value, labels);
  }
  return labels;
}
