// Which failures another worker may make good: those of the worker, never those of the request.
import type { PointsmanError } from '../plugin/index.ts';

/** What the failed try met with, for the counter. */
export type RetryReason = 'unreachable' | 'lost' | 'unavailable' | 'overloaded';

/** What an engine that stops, or a proxy without one behind it, answers with. */
const UNAVAILABLE: readonly unknown[] = [502, 503, 504];

/**
 * Why a request that failed like this may go elsewhere; null = it may not. An engine's 500 is no such failure: the request itself may
 * be what breaks engines.
 */
export function retryReasonOf({ code, details }: PointsmanError): RetryReason | null {
  if (code === 'PM_ENGINE_UNREACHABLE') return 'unreachable';
  if (code === 'PM_ENGINE_LOST') return 'lost';
  if (code === 'PM_ENGINE_FAILED' && UNAVAILABLE.includes(details.engine_status)) return 'unavailable';
  if (code === 'PM_ENGINE_REFUSED' && details.engine_status === 429) return 'overloaded';
  return null;
}
