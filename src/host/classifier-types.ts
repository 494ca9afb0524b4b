// What the road sees of request classifiers: a stage per partition, a lifecycle per request. Callbacks only; whatever takes time in
// between is the host's.
import type {
  Partition,
  PointsmanError,
  SessionContext,
  WorkerId,
  WorkerRank,
  WorkerTarget,
} from '../plugin/index.ts';

/** What is known of a request before it is classified. */
export interface ClassifierFacts {
  readonly requestId: string;
  readonly session: SessionContext | null;
  readonly promptTokens: number;
  /** Asked for by a trusted caller; null = none. */
  readonly policyClass: string | null;
  /** Ms of the clock. */
  readonly arrivedAt: number;
  readonly pinnedWorker: WorkerTarget | null;
}

/** Overrides after validation: a member that is missing was left as it is, null clears. */
export interface CheckedOverrides {
  readonly policyClass?: string | null;
  readonly dueAt?: number | null;
  readonly schedulingCostTokens?: number | null;
  readonly workerTarget?: { readonly workerId: WorkerId; readonly rank: number | null } | null;
}

/** What classification says of a request. */
export interface Classification {
  /** Type of the classifier. */
  readonly classifier: string;
  /** Whether it was asked; false = it is tripped, and the request passes as it is. */
  readonly asked: boolean;
  /** From asking to the answer; ms. */
  readonly waitedMs: number;
  readonly overrides: CheckedOverrides;
}

/** What a classifier said after a while. */
export type LateAnswer =
  | { readonly kind: 'answered'; readonly value: unknown }
  | { readonly kind: 'threw'; readonly thrown: unknown }
  /** Its thread did not take the request within the deadline. */
  | { readonly kind: 'timed_out' }
  /** Its thread ended, over something else. */
  | { readonly kind: 'lost' };

/** The end of a classification; `over` = the request ended before. */
export type ClassifierOutcome =
  | { readonly kind: 'classified'; readonly classification: Classification }
  | { readonly kind: 'refused'; readonly error: PointsmanError }
  | { readonly kind: 'over' };

/** One request from its arrival to its end, as its classifier hears of it. Any call after the end does nothing. */
export interface RequestLifecycle {
  /**
   * Asks the classifier, the first time; later calls, for retries of the same request, get the same answer. `answered` is called exactly
   * once, at once or later.
   */
  classify(answered: (outcome: ClassifierOutcome) => void): void;
  /** So many tokens of prompt and output are there; never goes back. */
  progress(contextTokens: number): void;
  /** The request is with an engine. */
  sent(worker: WorkerRank): void;
  /** The engine began to answer. */
  responding(worker: WorkerRank): void;
  completed(worker: WorkerRank | null): void;
  /** @param error code of what ended it; null = the client left. */
  aborted(worker: WorkerRank | null, error: string | null): void;
}

/** The classifier of one partition. */
export interface ClassifierStage {
  /**
   * Registers a request that arrives.
   * @throws PointsmanError PM_CLASSIFIER_DUPLICATE_ID while another request with this id is under way, PM_SHUTTING_DOWN after the end.
   */
  begin(facts: ClassifierFacts): RequestLifecycle;
}

/** Where the road finds classifiers. */
export interface ClassifierSource {
  /**
   * The classifier of a partition; null = nobody classifies its requests.
   * @throws PointsmanError PM_PLUGIN_THREW, PM_PLUGIN_INVALID, where it cannot be created; PM_SHUTTING_DOWN after the end.
   */
  classifierFor(partition: Partition): ClassifierStage | null;
  /** Whether something waits that only a promise can bring: virtual time lets promises run before it goes on. */
  classifiersUnsettled(): boolean;
}
