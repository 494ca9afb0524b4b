// Request classifiers: when and as what a request enters the queue, never where it goes.
import {
  type Branded,
  type CommonOptions,
  type CreateBase,
  type Isolation,
  PLUGIN_API_VERSION,
  type Scope,
} from './define.ts';
import type { Partition, WorkerId, WorkerRank } from './ids.ts';
import type { NoParameters, ParameterSchema, Parameters } from './schema.ts';
import type { WorkerTarget } from './selection-request.ts';
import type { SessionContext } from './session.ts';

/** A request as its classifier sees it: frozen. Times are ms of the clock that `create` was given. */
export interface ClassifyRequest {
  /** Unique among the requests under way; the events of this request carry it too. */
  readonly requestId: string;
  readonly session: SessionContext | null;
  /** Tokens of the prompt. */
  readonly inputTokens: number;
  /** What it counts for when turns are taken, in tokens; ≥ 1: here the whole prompt. The queue takes off what is cached, unless the answer says another cost. */
  readonly schedulingCostTokens: number;
  /** The class a trusted caller asked for; null = none. */
  readonly policyClass: string | null;
  /** When it arrived. */
  readonly ingressAt: number;
  /** When it must have been admitted; null = whenever. */
  readonly dueAt: number | null;
  /** Prompt and generated tokens so far: begins at `inputTokens` and grows while the answer comes. Not what is held in a KV cache. */
  readonly contextTokens: number;
  /** Where a trusted caller pinned it; null = anywhere. */
  readonly pinnedWorker: WorkerTarget | null;
}

/**
 * What a classifier changes about a request. A missing member leaves it as it is, null clears it. They are recorded; all but
 * `workerTarget` take effect in the admission queue, where the model has one.
 */
export interface Overrides {
  /** A configured policy family, or an explicit class; without a queue profile only `default` exists. */
  readonly policyClass?: string | null;
  /** When it must have been admitted, in ms of the clock: if it still waits for its turn then, it is refused with 429. */
  readonly dueAt?: number | null;
  /** What it counts for when turns are taken: a whole number of tokens from 1 to 2^31 - 1. */
  readonly schedulingCostTokens?: number | null;
  /** Where it had better go: policies see it as `affinityTarget`. Pins and constraints win. Without a rank, any of the worker's. */
  readonly workerTarget?: { readonly workerId: WorkerId; readonly rank?: number | null } | null;
}

/** What `classify` answers: undefined changes nothing. */
export type ClassifyAnswer = Overrides | undefined | Promise<Overrides | undefined>;

/**
 * What became of a request. Per request in this order: `sent`, `responding`, then exactly one of `completed` and `aborted`, which may
 * come without those before it, and also for a request that ended before it was classified.
 */
export type ClassifierEvent =
  | { readonly kind: 'sent'; readonly requestId: string; readonly worker: WorkerRank }
  | { readonly kind: 'responding'; readonly requestId: string; readonly worker: WorkerRank }
  | {
      readonly kind: 'completed';
      readonly requestId: string;
      readonly worker: WorkerRank | null;
      /** Prompt and generated tokens. */
      readonly contextTokens: number;
    }
  | {
      readonly kind: 'aborted';
      readonly requestId: string;
      /** Null = it was on no worker. */
      readonly worker: WorkerRank | null;
      readonly contextTokens: number;
      /** Code of the error that ended it; null = the client left. */
      readonly error: string | null;
    };

/** A worker of the partition. */
export interface ClassifierWorker {
  readonly workerId: WorkerId;
  /** Its data-parallel ranks, ascending. */
  readonly ranks: readonly number[];
  /** KV pool per rank in blocks; null = not known. */
  readonly totalKvBlocks: number | null;
}

/** What `create` is given for one partition. */
export interface ClassifierPartition {
  readonly partition: Partition;
  /** Tokens per KV block as configured; null = not configured, workers tell later. */
  readonly blockSize: number | null;
  /** The partition's workers now, by id, whatever they do; without those that are gone. Call it again to see changes. */
  workers(): readonly ClassifierWorker[];
}

/** What `create` is given: with scope `shared` without the partition. */
export type ClassifierCreateContext<
  S extends ParameterSchema,
  X extends Scope = 'partition',
> = X extends 'partition' ? CreateBase<Parameters<S>> & ClassifierPartition : CreateBase<Parameters<S>>;

/** The context with its type parameters erased: what the host hands over. */
export type AnyClassifierCreateContext = CreateBase<unknown> & ClassifierPartition;

/** What `create` returns. A classifier without `classify` changes nothing. */
export interface RequestClassifier {
  /**
   * Called once per request, before anything is booked. It may wait, on the clock of `create`, and holds up nobody else by that; what it
   * does before it returns a promise holds up the router.
   * @throws CapacityExhausted and RateLimited refuse the request; anything else fails it, with a text that is not the classifier's.
   */
  classify?(request: ClassifyRequest): ClassifyAnswer;
  /** Told one event at a time: the next waits for the promise, for at most 10 s. What it throws is logged. */
  onEvent?(event: ClassifierEvent): void | Promise<void>;
  dispose?(): void | Promise<void>;
}

/** Options of {@link defineRequestClassifier}. */
export interface RequestClassifierOptions<S extends ParameterSchema, X extends Scope>
  extends CommonOptions<S, X> {
  /** Where it runs unless the configuration says otherwise; default `in-process`. */
  readonly isolation?: Isolation;
  readonly create: (context: ClassifierCreateContext<S, X>) => RequestClassifier;
}

/** A request classifier as the host sees it: frozen, its type parameters erased. */
export interface RequestClassifierDefinition extends Branded<'request-classifier'> {
  readonly type: string;
  readonly parameters?: ParameterSchema;
  readonly scope: Scope;
  readonly isolation?: Isolation;
  create(context: AnyClassifierCreateContext): RequestClassifier;
}

/**
 * Defines a request classifier; export the result from a module listed under `plugins`.
 *
 * @example
 * export default defineRequestClassifier({
 *   type: 'short_first',
 *   create: () => ({
 *     classify: ({ inputTokens }) => ({ policyClass: inputTokens > 8192 ? 'batch' : 'chat' }),
 *   }),
 * });
 */
export function defineRequestClassifier<
  S extends ParameterSchema = ParameterSchema<unknown, NoParameters>,
  const X extends Scope = 'partition',
>(options: RequestClassifierOptions<S, X>): RequestClassifierDefinition {
  return Object.freeze({
    scope: 'partition' as Scope,
    ...options,
    '~pointsman': Object.freeze({ kind: 'request-classifier', apiVersion: PLUGIN_API_VERSION }),
  });
}
