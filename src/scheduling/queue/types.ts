// What waits in a queue and what a class of it is like. Token counts are whole and ≥ 0.
import type { WorkerId } from '../../plugin/index.ts';

/** How requests of one class and one strict priority take their turns. */
export type QueuePolicy = 'fcfs' | 'wspt';

/** One policy class. */
export interface QueueClass {
  readonly name: string;
  /** Null = a class that is named by itself, whatever is cached. */
  readonly family: string | null;
  /** Of its family, the requests of this bucket of uncached tokens; null = a class without a family. */
  readonly bucket: string | null;
  readonly policy: QueuePolicy;
  /** Tokens granted per round, ≥ 1: classes that wait get tokens in this proportion. */
  readonly quantum: number;
  /** A rank with more prompt tokens to compute is busy; null = not tested. */
  readonly prefillBusyThreshold: number | null;
  /** The same as a multiple of the tokens of a rank's pass; null = not tested. */
  readonly prefillBusyThresholdFrac: number | null;
  /** Share of the eligible workers, 0 to 1, that are busy when requests begin to wait; null = all. */
  readonly busyWorkerRatio: number | null;
  /** Limits per worker of what waits; null = none. */
  readonly requestLimit: number | null;
  readonly rawIslLimit: number | null;
  readonly cachedLimit: number | null;
}

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
