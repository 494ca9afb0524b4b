// The queue step: whose turn it is. So far nothing waits: a request is admitted at once, or refused when too many are under way.
import { type Metrics, type ReleasePace, retryAfterSeconds } from '../observe/index.ts';
import { PointsmanError } from '../plugin/index.ts';

/**
 * Admits directly while fewer than `limit` requests are under way.
 * @param pace of the requests that end.
 * @param now ms of the clock.
 * @returns null, or the refusal (PM_OVERLOADED) with `retry_after` in seconds: until there is room for one more.
 */
export function admitDirectly(
  underWay: number,
  limit: number,
  pace: ReleasePace,
  now: number,
): PointsmanError | null {
  if (underWay === 0) pace.restart(now);
  if (underWay < limit) return null;
  const seconds = retryAfterSeconds(pace.msUntil(underWay - limit + 1, now));
  return new PointsmanError(
    'PM_OVERLOADED',
    `${underWay} requests are under way, and limits.concurrent_requests allows ${limit}; try again in ${seconds} s`,
    {
      details: {
        refusal: 'concurrent_requests',
        current: underWay,
        limit,
        retry_after: String(seconds),
      },
    },
  );
}

/** Counts a refusal by load; other errors are not counted here. */
export function countRefusal(metrics: Metrics, model: string, { details }: PointsmanError): void {
  if (typeof details.refusal !== 'string') return;
  metrics.count('pointsman_overload_refusals_total', { model, reason: details.refusal });
}
