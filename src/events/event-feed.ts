// What is known about one owner's event stream: where it stands, what was missed and what was refused. Visible in worker status,
// because a stream that is silently wrong routes as if nothing were cached.
import type { FilterReason } from './event-filter.ts';

/** Why an event, or a whole batch (`undecodable`), changed nothing. */
export type RejectReason =
  | FilterReason
  /** The engine's block size does not divide the model's, or is 1 while the model's is not known. */
  | 'block_size'
  /** Token ids do not fill the blocks exactly. */
  | 'token_count'
  /** Dropped while it waited for its parent. */
  | 'unknown_parent'
  /** Its parent is not known any more, as the index is full and evicts: no replay could change that. */
  | 'evicted_parent'
  /** Its parent was left out, by what it says of itself. */
  | 'unusable_parent'
  /** Its hash, or its parent's, was seen under two cache salts. */
  | 'ambiguous_cache_namespace'
  /** No room to remember the salt of more blocks. */
  | 'cache_namespace_full'
  /** Pairs of token ids (EAGLE), while the model has plain ones; and the other way round. */
  | 'bigram_tokens'
  | 'plain_tokens'
  /** A page's hash stands for another page with this owner. */
  | 'hash_conflict'
  /** No room for more pages smaller than the model's blocks. */
  | 'page_capacity'
  | 'self_reference'
  /** The batch names a rank nobody registered. */
  | 'unknown_rank'
  | 'undecodable'
  /** The index refused it; see `lastError`. */
  | 'failed';

/** Questions to the engine for what was missed, by what became of them. */
export interface ReplayCounts {
  asked: number;
  answered: number;
  timed_out: number;
  /** Could not be asked, or the answer was beyond every measure. */
  failed: number;
  /** Answers that did not reach back to what was asked for. */
  too_old: number;
}

/** State of one stream; counters run since the owner was first heard. */
export interface EventFeed {
  /** Sequence number of the last batch that was applied or given up; -1 = none. */
  readonly lastSequence: number;
  /** Time stamp of that batch, seconds by the engine's clock; null = not known. */
  readonly lastTime: number | null;
  /** Clock time of the newest batch, ms. */
  readonly lastBatchAt: number;
  /** Live messages. */
  readonly batches: number;
  /** Times the sequence jumped forward. */
  readonly gaps: number;
  /** Batches lost for good: in gaps, or sent before the router listened. */
  readonly missedBatches: number;
  /** Messages that were heard before, or come from a process that ended. */
  readonly duplicates: number;
  /** Times the engine was seen to have started anew, so that the owner was cleared. */
  readonly restarts: number;
  /** Batches are lost for good since the engine's start or its last clear: the index may be wrong about this owner. */
  readonly stale: boolean;
  /** The engine's history did not reach back: what the index has is right, but the engine may hold more. */
  readonly partial: boolean;
  /** Blocks came from a snapshot or a peer, so that it is not known how many copies of each the engine announced. */
  readonly restored: boolean;
  /** A replay is under way, so what the index has is behind. */
  readonly isRecovering: boolean;
  /** Whether the engine can be asked for what was missed. */
  readonly canReplay: boolean;
  readonly replays: Readonly<ReplayCounts>;
  /** Batches that came as answers. */
  readonly replayedBatches: number;
  /** Batches that wait for those before them, and their bytes. */
  readonly pendingBatches: number;
  readonly pendingBytes: number;
  /** Messages that found no room among those; they are asked for again. */
  readonly overflows: number;
  /** Events (for `undecodable`: batches) by reason. */
  readonly rejected: Readonly<Partial<Record<RejectReason, number>>>;
  /** Blocks of stores by reason, those dropped while they waited for a parent included. */
  readonly rejectedBlocks: Readonly<Partial<Record<RejectReason, number>>>;
  /** Hashes of removals that the index did not know. */
  readonly unknownRemoves: number;
  /** A block size the engine announced that is not the model's; null = none seen. */
  readonly mismatchedBlockSize: number | null;
  /** The newest decoding or index error; null = none. */
  readonly lastError: string | null;
}

/** How far the index can be trusted about an owner. */
export type StreamState = 'stale' | 'recovering' | 'partial' | 'exact';

/** What a stream's marks come to, worst first. */
export function streamState(feed: Pick<EventFeed, 'stale' | 'partial' | 'isRecovering'>): StreamState {
  if (feed.stale) return 'stale';
  if (feed.isRecovering) return 'recovering';
  return feed.partial ? 'partial' : 'exact';
}

/**
 * Whether the stores of an owner are counted, so that it takes as many removes to undo them: engines announce every copy of a block.
 * Where batches were lost, or blocks came from a snapshot or a peer (which has the block of a store that is heard once more), counts
 * do not say how many copies there are. Null = an owner without a stream.
 */
export function countsCopies(feed: Pick<EventFeed, 'stale' | 'restored'> | null): boolean {
  return feed === null || !(feed.stale || feed.restored);
}

/** The counting part, in changeable form. */
export class OwnerFeed {
  lastBatchAt = 0;
  batches = 0;
  gaps = 0;
  missedBatches = 0;
  duplicates = 0;
  restarts = 0;
  readonly replays: ReplayCounts = { asked: 0, answered: 0, timed_out: 0, failed: 0, too_old: 0 };
  replayedBatches = 0;
  overflows = 0;
  rejected: Partial<Record<RejectReason, number>> = {};
  rejectedBlocks: Partial<Record<RejectReason, number>> = {};
  unknownRemoves = 0;
  mismatchedBlockSize: number | null = null;
  lastError: string | null = null;

  reject(reason: RejectReason, blocks: number, events = 1): void {
    if (events > 0) this.rejected[reason] = (this.rejected[reason] ?? 0) + events;
    if (blocks > 0) this.rejectedBlocks[reason] = (this.rejectedBlocks[reason] ?? 0) + blocks;
  }
}
