// What clients are told when a session's binding stands in the way.
import { PointsmanError } from '../../plugin/index.ts';
import type { AffinityTarget } from './types.ts';

/** Longest session id in bytes of UTF-8. */
export const MAX_SESSION_BYTES = 256;

/** There is no room for another binding. */
export function tableFull(size: number, limit: number): PointsmanError {
  return new PointsmanError(
    'PM_AFFINITY_FULL',
    `${size} sessions are bound to workers, and router.session_affinity.max_sessions allows ${limit}; try again when some have expired, or raise it`,
    { details: { current: size, limit, retry_after: '1' } },
  );
}

/** Too many requests wait for the bindings of their sessions. */
export function tooManyWait(waiting: number): PointsmanError {
  return new PointsmanError(
    'PM_AFFINITY_FULL',
    `${waiting} requests wait until the first request of their session is placed; try again in 1 s`,
    { details: { waiting, retry_after: '1' } },
  );
}

/** Its id cannot be a key. */
export function idTooLong(bytes: number): PointsmanError {
  return new PointsmanError(
    'PM_AFFINITY_ID',
    `a session id has at most ${MAX_SESSION_BYTES} bytes where sessions are bound to workers, and this one has ${bytes}; send a shorter one, or none`,
    { details: { bytes, limit: MAX_SESSION_BYTES } },
  );
}

/** The request must go elsewhere than its session. */
export function targetConflict(bound: AffinityTarget, asked: AffinityTarget): PointsmanError {
  return new PointsmanError(
    'PM_AFFINITY_CONFLICT',
    `the request must go to ${named(asked)}, and its session is bound to ${named(bound)}; drop the pin, or send it without the session`,
    { details: { worker_id: String(bound.workerId), dp_rank: bound.rank } },
  );
}

/** A request of a session ran elsewhere than it had to. */
export function dispatchConflict(bound: AffinityTarget, dispatched: AffinityTarget): PointsmanError {
  return new PointsmanError(
    'PM_AFFINITY_CONFLICT',
    `the session is bound to ${named(bound)}, and its request was placed on ${named(dispatched)}; the binding is dropped, send the request again`,
    { details: { worker_id: String(bound.workerId), dp_rank: bound.rank } },
  );
}

/** The worker of a session bound hard is not there for it. @param why the refusal of selection. */
export function targetUnavailable(bound: AffinityTarget, why: PointsmanError): PointsmanError {
  return new PointsmanError(
    'PM_AFFINITY_UNAVAILABLE',
    `the session is bound to ${named(bound)}, which cannot take its request now; the binding is dropped, and the next request of the session gets another worker`,
    {
      cause: why,
      details: { ...why.details, worker_id: String(bound.workerId), dp_rank: bound.rank, retry_after: '1' },
    },
  );
}

/** The request's own allow-list leaves out the worker of its session. */
export function targetNotAllowed(bound: AffinityTarget, why: PointsmanError): PointsmanError {
  return new PointsmanError(
    'PM_AFFINITY_CONFLICT',
    `the session is bound to ${named(bound)}, which is not among the workers that its request allows; allow it, or send the request without the session`,
    { cause: why, details: { worker_id: String(bound.workerId), dp_rank: bound.rank } },
  );
}

function named({ rank, workerId }: AffinityTarget): string {
  return rank === null ? `worker ${workerId}` : `rank ${rank} of worker ${workerId}`;
}
