// What a request gets that the queue does not let in, or not in time: 429 with what its class holds, and when to try again.
import { retryAfterSeconds } from '../observe/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import type { LimitKind, ReachedLimit } from '../scheduling/index.ts';

/** Whose queue refuses. */
export interface RefusingQueue {
  readonly model: string;
  readonly role: string;
  readonly policyClass: string;
}

/** Keys of the limits, for those who read the message. */
const KEYS: Readonly<Record<LimitKind, string>> = {
  requests: 'request_queue_limit_per_worker',
  raw_isl_tokens: 'raw_isl_token_queue_limit_per_worker',
  cached_tokens: 'cached_token_queue_limit_per_worker',
};
const WHAT: Readonly<Record<LimitKind, readonly [one: string, more: string]>> = {
  requests: ['request waits', 'requests wait'],
  raw_isl_tokens: ['prompt token waits', 'prompt tokens wait'],
  cached_tokens: ['cached token waits', 'cached tokens wait'],
};

/** @param waitMs until there is room; null = nothing was measured yet. */
export function queueFull(
  queue: RefusingQueue,
  { kind, current, limit }: ReachedLimit,
  workers: number,
  waitMs: number | null,
): PointsmanError {
  const seconds = retryAfterSeconds(waitMs);
  return new PointsmanError(
    'PM_QUEUE_FULL',
    `all workers are busy and policy class ${queue.policyClass} of model ${queue.model} is full: ${current} ${WHAT[kind][current === 1 ? 0 : 1]}, and ${KEYS[kind]} allows ${limit} with ${workers} ${workers === 1 ? 'worker' : 'workers'}; try again in ${seconds} s`,
    {
      details: {
        refusal: 'queue_full',
        ...names(queue),
        limit_kind: kind,
        current,
        limit,
        ...again(seconds),
      },
    },
  );
}

/** @param waitMs until as many have gone on as wait now; null = nothing was measured yet. */
export function deadlineExceeded(
  queue: RefusingQueue,
  waitedMs: number,
  waitMs: number | null,
): PointsmanError {
  const seconds = retryAfterSeconds(waitMs);
  return new PointsmanError(
    'PM_QUEUE_DEADLINE',
    `the request was due before its turn came: it waited ${Math.round(waitedMs)} ms in policy class ${queue.policyClass} of model ${queue.model}; try again in ${seconds} s`,
    { details: { refusal: 'queue_deadline', ...names(queue), waited_ms: waitedMs, ...again(seconds) } },
  );
}

/** A caller that would rather not wait would have to. */
export function wouldWait(
  queue: RefusingQueue,
  waiting: { readonly requests: number; readonly rawIslTokens: number; readonly cachedTokens: number },
  waitMs: number | null,
): PointsmanError {
  const seconds = retryAfterSeconds(waitMs);
  return new PointsmanError(
    'PM_QUEUE_WOULD_WAIT',
    `the request would have to wait in policy class ${queue.policyClass} of model ${queue.model}, behind ${waiting.requests} others; try again in ${seconds} s`,
    {
      details: {
        refusal: 'queue_would_wait',
        ...names(queue),
        pending_count: waiting.requests,
        pending_isl_tokens: waiting.rawIslTokens,
        pending_cached_tokens: waiting.cachedTokens,
        ...again(seconds),
      },
    },
  );
}

function names({ model, role, policyClass }: RefusingQueue) {
  return { policy_class: policyClass, model, role };
}

function again(seconds: number) {
  return { retry_after: String(seconds) };
}
