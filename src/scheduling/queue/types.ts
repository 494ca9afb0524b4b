// What waits in a queue and what a class of it is like. Token counts are whole and ≥ 0.
import type { QueueClassSettings } from '../../config/index.ts';
import type { WorkerId } from '../../plugin/index.ts';

/** One policy class. */
export type QueueClass = QueueClassSettings;

/** Tokens of a request when it came to the queue. They do not change while it waits. */
export interface QueueSnapshot {
  /** Prompt tokens. */
  readonly rawIsl: number;
  /** Of these, the most that any worker it may go to had cached. */
  readonly cached: number;
  /** What its turn costs, ≥ 1. */
  readonly cost: number;
}

/** What the order of a class looks at. */
export interface OrderKey {
  /** Higher goes first, whatever else. */
  readonly strictPriority: number;
  /** Ms of the clock, earlier goes first; null = after all that have one. */
  readonly dueAt: number | null;
  /** Higher goes first; see `policyScore`. */
  readonly score: number;
  /** Number of its arrival: the lower goes first among equals. */
  readonly sequence: number;
}

/** Where a request must go. */
export interface PinnedLane {
  readonly workerId: WorkerId;
  /** Null = any rank of the worker. */
  readonly rank: number | null;
}

/** What is handed over to be queued. */
export interface QueueRequest<T> {
  readonly payload: T;
  readonly snapshot: QueueSnapshot;
  readonly strictPriority: number;
  /** Seconds by which it may overtake, or their weight under wspt; negative counts as 0. */
  readonly priorityJump: number;
  /** Ms of the clock by which it must have been admitted; null = whenever. */
  readonly dueAt: number | null;
  /** When it came to the queue, ms of the clock. */
  readonly arrivedAt: number;
  /** Null = any worker. */
  readonly pinned: PinnedLane | null;
}

/** Sums over what waits in a class. */
export interface QueueStats {
  requests: number;
  rawIslTokens: number;
  cachedTokens: number;
}
