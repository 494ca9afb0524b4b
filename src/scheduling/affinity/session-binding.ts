// A request and the binding of its session: how the binding narrows its placement, and what its placement, its dispatch and its end make
// of the binding.
import type { AffinityRecord } from '../../observe/index.ts';
import type { ErrorCode, PointsmanError, WorkerRank } from '../../plugin/index.ts';
import type { PlacementRequest } from '../types.ts';
import { dispatchConflict, targetNotAllowed, targetUnavailable } from './affinity-errors.ts';
import type { AffinityRequest } from './affinity-key.ts';
import type { AffinityHold } from './affinity-table.ts';
import type { AffinityMode, AffinityTarget } from './types.ts';

/** Refusals of selection that say that the worker a request must go to is not there for it; a busy one is. */
const WORKER_MISSING: ReadonlySet<ErrorCode> = new Set([
  'PM_SELECTION_PINNED_UNAVAILABLE',
  'PM_SELECTION_NO_ENDPOINTS',
  'PM_SELECTION_ALL_FILTERED',
] as const);

/** Failures of a worker; one of the request, or of its client, leaves the binding as it is, and so does a booking nobody released. */
const WORKER_FAILED: ReadonlySet<ErrorCode> = new Set([
  'PM_ENGINE_UNREACHABLE',
  'PM_ENGINE_LOST',
  'PM_ENGINE_FAILED',
] as const);

type MutableAffinityRecord = { -readonly [K in keyof AffinityRecord]: AffinityRecord[K] };

/** What is counted of bindings. */
export type AffinityCount = AffinityRecord['outcome'] | 'overtaken' | 'conflict' | 'waited' | 'unbound';

/** Whose binding it is. */
export interface BindingOwner {
  count(request: AffinityRequest, what: AffinityCount): void;
  /** Drops the binding of a request that only looked at it. */
  forget(request: AffinityRequest, target: AffinityTarget): boolean;
}

/** One request's part. */
export class SessionBinding {
  readonly #owner: BindingOwner;
  readonly #request: AffinityRequest;
  readonly #mode: AffinityMode;
  /** Null = the request makes the binding. */
  readonly #target: AffinityTarget | null;
  /** Null = it is only looked at. */
  readonly #hold: AffinityHold | null;
  readonly #waitedMs: number | null;
  /** Null = it is not placed yet. */
  #record: MutableAffinityRecord | null = null;

  constructor(
    owner: BindingOwner,
    request: AffinityRequest,
    mode: AffinityMode,
    target: AffinityTarget | null,
    hold: AffinityHold | null,
    waitedMs: number | null,
  ) {
    this.#owner = owner;
    this.#request = request;
    this.#mode = mode;
    this.#target = target;
    this.#hold = hold;
    this.#waitedMs = waitedMs;
  }

  /** Whether the request goes to its session's worker or fails. */
  get exact(): boolean {
    return this.#mode === 'hard' && this.#target !== null;
  }

  /** The request as it is placed: bound hard it is pinned; else advised, where nobody advised otherwise. */
  placing(request: PlacementRequest): PlacementRequest {
    const target = this.#target;
    if (target === null) return request;
    if (this.#mode === 'hard')
      return { ...request, constraints: { ...request.constraints, pinnedWorker: target } };
    return { ...request, affinityTarget: request.affinityTarget ?? target };
  }

  /** It was placed; what the record says, which changes if the binding is dropped at the end. */
  placed({ rank, workerId }: WorkerRank): AffinityRecord {
    const mode = this.#mode;
    const target = this.#target;
    const elsewhere = target !== null && (target.workerId !== workerId || (target.rank ?? rank) !== rank);
    const usual = mode === 'hard' ? 'bound' : elsewhere ? 'moved' : 'kept';
    this.#record = {
      mode,
      target: target && { worker_id: target.workerId, dp_rank: target.rank },
      outcome: target === null ? 'initialised' : usual,
      waited_ms: this.#waitedMs,
    };
    return this.#record;
  }

  /**
   * It could not be placed. A worker that is not there loses the session: the next request gets another one.
   * @param ownPin whether the request itself must go there: then it knows the error.
   * @returns the error to answer with.
   */
  unplaced(error: PointsmanError, ownPin: boolean): PointsmanError {
    const target = this.#target;
    if (!this.exact || target === null) {
      this.#hold?.release();
      return error;
    }
    // That the worker failed this very request before says nothing of a binding that others made since.
    const isExcluded = this.#request.constraints.excludedWorkers?.includes(target.workerId) === true;
    if (WORKER_MISSING.has(error.code) && !isExcluded) {
      this.#invalidate();
      return ownPin ? error : targetUnavailable(target, error);
    }
    this.#hold?.release();
    const contradicts = error.code === 'PM_SELECTION_PINNED_NOT_ALLOWED' && !ownPin;
    return contradicts ? targetNotAllowed(target, error) : error;
  }

  /** It goes to a worker next. Returns why it may not, if so. */
  commit(dispatched: WorkerRank): PointsmanError | null {
    const outcome = this.#hold?.commit(dispatched, this.#mode) ?? null;
    if (outcome === null) return null;
    this.#owner.count(this.#request, outcome === 'kept' && this.#mode === 'hard' ? 'bound' : outcome);
    if (outcome !== 'conflict') return null;
    this.#noteDropped();
    return dispatchConflict(this.#target ?? dispatched, dispatched);
  }

  /** It ended. @param failure null = well, or its client left. Idempotent. */
  ended(failure: ErrorCode | null): void {
    const isWorkers = failure !== null && WORKER_FAILED.has(failure);
    if (isWorkers && this.#mode === 'hard') this.#invalidate();
    else this.#hold?.release();
  }

  #invalidate(): void {
    const dropped =
      this.#hold === null
        ? this.#target !== null && this.#owner.forget(this.#request, this.#target)
        : this.#hold.invalidate();
    if (!dropped) return;
    this.#noteDropped();
    this.#owner.count(this.#request, 'invalidated');
  }

  #noteDropped(): void {
    if (this.#record !== null) this.#record.outcome = 'invalidated';
  }
}
