// A request and the binding of its session: how the binding narrows its placement, and what its placement, its dispatch and its end make
// of the binding.
import type { AffinityRecord } from '../../observe/index.ts';
import type { ErrorCode, PointsmanError, WorkerRank } from '../../plugin/index.ts';
import type { PlacementRequest } from '../types.ts';
import { dispatchConflict, targetNotAllowed, targetUnavailable } from './affinity-errors.ts';
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

/** What a binding is made of. */
export interface SessionBindingParts {
  readonly mode: AffinityMode;
  /** Null = the request makes the binding. */
  readonly target: AffinityTarget | null;
  /** Null = it is only looked at. */
  readonly hold: AffinityHold | null;
  /** Drops a binding that is only looked at. */
  readonly forget: () => boolean;
  readonly waitedMs: number | null;
  readonly count: (what: AffinityCount) => void;
}

/** One request's part. */
export class SessionBinding {
  readonly #parts: SessionBindingParts;
  /** Null = it is not placed yet. */
  #record: MutableAffinityRecord | null = null;

  constructor(parts: SessionBindingParts) {
    this.#parts = parts;
  }

  /** Whether the request goes to its session's worker or fails. */
  get exact(): boolean {
    return this.#parts.mode === 'hard' && this.#parts.target !== null;
  }

  /** The request as it is placed: bound hard it is pinned; else advised, where nobody advised otherwise. */
  placing(request: PlacementRequest): PlacementRequest {
    const { mode, target } = this.#parts;
    if (target === null) return request;
    if (mode === 'hard') return { ...request, constraints: { ...request.constraints, pinnedWorker: target } };
    return { ...request, affinityTarget: request.affinityTarget ?? target };
  }

  /** It was placed; what the record says, which changes if the binding is dropped at the end. */
  placed({ rank, workerId }: WorkerRank): AffinityRecord {
    const { mode, target, waitedMs } = this.#parts;
    const elsewhere = target !== null && (target.workerId !== workerId || (target.rank ?? rank) !== rank);
    const usual = mode === 'hard' ? 'bound' : elsewhere ? 'moved' : 'kept';
    this.#record = {
      mode,
      target: target && { worker_id: target.workerId, dp_rank: target.rank },
      outcome: target === null ? 'initialised' : usual,
      waited_ms: waitedMs,
    };
    return this.#record;
  }

  /**
   * It could not be placed. A worker that is not there loses the session: the next request gets another one.
   * @param ownPin whether the request itself must go there: then it knows the error.
   * @returns the error to answer with.
   */
  unplaced(error: PointsmanError, ownPin: boolean): PointsmanError {
    const { target } = this.#parts;
    if (!this.exact || target === null) {
      this.#parts.hold?.release();
      return error;
    }
    if (WORKER_MISSING.has(error.code)) {
      this.#invalidate();
      return ownPin ? error : targetUnavailable(target, error);
    }
    this.#parts.hold?.release();
    const contradicts = error.code === 'PM_SELECTION_PINNED_NOT_ALLOWED' && !ownPin;
    return contradicts ? targetNotAllowed(target, error) : error;
  }

  /** It goes to a worker next. Returns why it may not, if so. */
  commit(dispatched: WorkerRank): PointsmanError | null {
    const { count, hold, mode, target } = this.#parts;
    const outcome = hold?.commit(dispatched, mode) ?? null;
    if (outcome === null) return null;
    count(outcome === 'kept' && mode === 'hard' ? 'bound' : outcome);
    if (outcome !== 'conflict') return null;
    this.#noteDropped();
    return dispatchConflict(target ?? dispatched, dispatched);
  }

  /** It ended. @param failure null = well, or its client left. Idempotent. */
  ended(failure: ErrorCode | null): void {
    const isWorkers = failure !== null && WORKER_FAILED.has(failure);
    if (isWorkers && this.#parts.mode === 'hard') this.#invalidate();
    else this.#parts.hold?.release();
  }

  #invalidate(): void {
    const { count, forget, hold } = this.#parts;
    const dropped = hold === null ? forget() : hold.invalidate();
    if (!dropped) return;
    this.#noteDropped();
    count('invalidated');
  }

  #noteDropped(): void {
    if (this.#record !== null) this.#record.outcome = 'invalidated';
  }
}
