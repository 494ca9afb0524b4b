// The queue step: whose turn it is. So far nothing waits: a request is admitted at once, or refused when too many are under way.
import { PointsmanError } from '../plugin/index.ts';

/**
 * Admits directly while fewer than `limit` requests are under way.
 * @returns null, or the refusal (PM_OVERLOADED) with `retry_after` in seconds.
 */
export function admitDirectly(underWay: number, limit: number): PointsmanError | null {
  if (underWay < limit) return null;
  return new PointsmanError(
    'PM_OVERLOADED',
    `${underWay} requests are under way, and limits.concurrent_requests allows ${limit}; try again in a second`,
    { details: { limit, retry_after: '1' } },
  );
}
