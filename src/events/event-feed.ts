// What is known about one owner's event stream: where it stands, what was missed and what was refused. Visible in worker status,
// because a stream that is silently wrong routes as if nothing were cached.
import type { OwnerSlot } from '../kv/index.ts';
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

/** State of one stream; counters run since the owner was first heard. */
export interface EventFeed {
  /** Sequence number of the newest batch. */
  readonly lastSequence: number;
  /** Clock time of the newest batch, ms. */
  readonly lastBatchAt: number;
  readonly batches: number;
  /** Times the sequence jumped forward. */
  readonly gaps: number;
  /** Batches lost in gaps, or sent before the router listened. */
  readonly missedBatches: number;
  /** Times the sequence fell back: the engine started anew and the owner was cleared. */
  readonly restarts: number;
  /** Batches are missing since the engine's start or its last clear, so the index may be wrong about this owner. */
  readonly stale: boolean;
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

/** What a batch's sequence number says. */
export type SequenceStep = 'next' | 'gap' | 'restart';

/** The changeable form, held by the applier. */
export class OwnerFeed implements EventFeed {
  lastSequence = -1;
  lastBatchAt = 0;
  batches = 0;
  gaps = 0;
  missedBatches = 0;
  restarts = 0;
  stale = false;
  rejected: Partial<Record<RejectReason, number>> = {};
  rejectedBlocks: Partial<Record<RejectReason, number>> = {};
  unknownRemoves = 0;
  mismatchedBlockSize: number | null = null;
  lastError: string | null = null;
  /** Owners of other ranks that this connection's batches named since the engine's start. */
  readonly otherOwners = new Set<OwnerSlot>();

  /**
   * Moves to a batch. A number that is not higher than the last one is a new engine: ZeroMQ neither repeats nor reorders.
   * The first batch heard is a gap unless it is number 0: what came before was not heard.
   */
  step(sequence: number, now: number): SequenceStep {
    const expected = this.lastSequence + 1;
    const restart = sequence < expected;
    const missed = restart ? sequence : sequence - expected;
    this.lastSequence = sequence;
    this.lastBatchAt = now;
    this.batches += 1;
    if (restart) {
      this.restarts += 1;
      this.stale = false;
    }
    if (missed > 0) {
      this.gaps += 1;
      this.missedBatches += missed;
      this.stale = true;
    }
    return restart ? 'restart' : missed > 0 ? 'gap' : 'next';
  }

  /** Expects the stream to begin again, as that of an engine that was not heard yet. */
  startAnew(): void {
    this.lastSequence = -1;
    this.stale = false;
    this.otherOwners.clear();
  }

  reject(reason: RejectReason, blocks: number, events = 1): void {
    if (events > 0) this.rejected[reason] = (this.rejected[reason] ?? 0) + events;
    if (blocks > 0) this.rejectedBlocks[reason] = (this.rejectedBlocks[reason] ?? 0) + blocks;
  }
}
