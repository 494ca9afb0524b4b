// What a parity monitor is made of, and what it is told.
import type { EventFeed, KvEventReplay } from '../events/index.ts';
import type { Fleet, Worker } from '../fleet/index.ts';
import type { BlockHasher, OwnerSlot, PrefixIndex } from '../kv/index.ts';
import type { Metrics } from '../observe/index.ts';
import type { Clock, WorkerId } from '../plugin/index.ts';
import type { AnsweredPrompt } from './prompt-verdict.ts';
import type { EvidenceNeeded } from './rank-findings.ts';

/** Where a rank's events come from. */
export interface RankStream {
  readonly endpoint: string | null;
  readonly replay: string | null;
  readonly connected: boolean;
}

/** What is watched. */
export interface ParityMonitorOptions {
  readonly fleet: Fleet;
  readonly hasher: BlockHasher;
  readonly index: Pick<PrefixIndex, 'find' | 'lacksRoomFor'>;
  readonly blockSizeOf: (slot: OwnerSlot) => number | null;
  readonly pairsOf: (slot: OwnerSlot) => boolean;
  /** The dialect that a worker speaks, for flags in its words. */
  readonly dialectOf: (worker: Worker) => string;
  /** Null = KV events are not read. */
  readonly stream: (worker: WorkerId, rank: number) => RankStream | null;
  readonly feed: (slot: OwnerSlot) => EventFeed | null;
  /** Where a rank is asked for batches that were heard; null = nowhere. */
  readonly replayOf: (slot: OwnerSlot) => KvEventReplay | null;
  /** Whether a worker answers requests. */
  readonly answers: (worker: WorkerId) => boolean;
  /** Requests of a worker for which it computed new blocks that no event told of. */
  readonly unheard: (worker: WorkerId) => number;
  /** Whether engines may be asked for the ids that they see; absent = they are not. */
  readonly asksIds?: () => boolean;
  /** Where ids that an engine told part from the router's of the same prompt, in words without any id or text; null = nowhere. */
  readonly idsDiffer?: (model: string, router: Uint32Array, engine: Uint32Array) => string | null;
  readonly needed: EvidenceNeeded;
  /** How long events may take after an answer before it is judged, ms. */
  readonly settleMs: number;
  /** Told when the codes of a rank changed. */
  readonly changed?: (worker: Worker) => void;
  readonly clock: Clock;
  readonly metrics: Metrics;
}

/** An answer as the road hands it over. */
export interface AnsweredRequest extends AnsweredPrompt {
  readonly worker: WorkerId;
  /** Of its rank, while the worker is there: afterwards it may be another's. */
  readonly slot: OwnerSlot;
  /** Cached tokens that were expected; null = no prediction. */
  readonly predictedTokens: number | null;
  /** When it was booked, ms. */
  readonly sentAt: number;
  /** Whether its tokens are those that the engine is to see; an estimate says nothing of blocks. */
  readonly isExact: boolean;
  /** Ids of the prompt as the engine saw them; null or absent = it was not asked. */
  readonly engineIds?: Uint32Array | null;
}
