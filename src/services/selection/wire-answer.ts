// Answers and errors as clients read them.
import { type ErrorCode, PointsmanError } from '../../plugin/index.ts';

/** What a route answers. */
export interface WireAnswer {
  readonly status: number;
  readonly value: unknown;
  /** Called when the client did not get it. */
  readonly undelivered?: () => void;
}

/** Lifecycle calls that went well. */
export const OK: WireAnswer = { status: 200, value: { status: 'ok' } };

const KINDS: Readonly<Partial<Record<ErrorCode, string>>> = {
  PM_SELECTOR_REQUEST: 'bad_request',
  PM_SELECTOR_TOO_LARGE: 'bad_request',
  PM_SELECTOR_HOST: 'bad_request',
  PM_SELECTOR_UNAUTHORIZED: 'bad_request',
  PM_SELECTOR_METHOD: 'bad_request',
  PM_KV_TOO_LONG: 'bad_request',
  PM_PROMPT_INVALID: 'bad_request',
  PM_SELECTOR_UNKNOWN: 'not_found',
  PM_SELECTOR_CONFLICT: 'conflict',
  PM_CLASSIFIER_DUPLICATE_ID: 'conflict',
  PM_AFFINITY_CONFLICT: 'conflict',
  PM_AFFINITY_ID: 'bad_request',
  PM_SELECTOR_NOT_READY: 'not_ready',
  PM_SELECTION_BLOCK_SIZE_UNKNOWN: 'not_ready',
  PM_SELECTOR_FULL: 'not_ready',
};

/** Codes whose status here is another than where an engine answers. */
const STATUSES: Readonly<Partial<Record<ErrorCode, number>>> = {
  // Its worker left while it was being booked: another may take it.
  PM_ENGINE_LOST: 503,
};

/** An error as status, headers and body. */
export function wireError(error: PointsmanError): {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly value: unknown;
} {
  const { code, details, message } = error;
  const status = STATUSES[code] ?? error.status;
  const retryAfter = details.retry_after;
  return {
    status,
    headers: typeof retryAfter === 'string' ? { 'retry-after': retryAfter } : {},
    value: {
      error: message,
      kind: KINDS[code] ?? (status >= 400 && status !== 500 ? 'scheduler' : 'internal'),
      code,
      ...(Object.keys(details).length === 0 ? {} : { details }),
    },
  };
}

/** The error of a reservation whose worker cannot take it: to its caller that worker is not there. */
export function asUnknownWorker(thrown: unknown, workerId: bigint, rank: number): unknown {
  if (!(thrown instanceof PointsmanError)) return thrown;
  if (thrown.code !== 'PM_SELECTION_PINNED_UNAVAILABLE' && thrown.code !== 'PM_ENGINE_LOST') return thrown;
  return unknownWorker(workerId, rank);
}

/** There is no such worker to book. */
export function unknownWorker(workerId: bigint, rank: number): PointsmanError {
  return new PointsmanError(
    'PM_SELECTOR_UNKNOWN',
    `worker ${workerId} has no rank ${rank} in this partition that can be scheduled`,
    { details: { worker_id: String(workerId), dp_rank: rank } },
  );
}
