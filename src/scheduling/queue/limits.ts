// How much may wait in a class. Usage is compared before the request is added, so the one that crosses a limit still gets in, and a
// limit of 0 lets nobody wait.
import type { QueueClass, QueueStats } from './types.ts';

/** What is limited, in the order in which limits are checked. */
export type LimitKind = 'requests' | 'raw_isl_tokens' | 'cached_tokens';

/** A limit that is reached. */
export interface ReachedLimit {
  readonly kind: LimitKind;
  readonly current: number;
  readonly limit: number;
}

/**
 * The first limit of a class that is reached; null = one more may wait.
 * @param workers registered workers; each limit is per worker.
 */
export function reachedLimit(
  { requestLimit, rawIslLimit, cachedLimit }: QueueClass,
  { requests, rawIslTokens, cachedTokens }: QueueStats,
  workers: number,
): ReachedLimit | null {
  return (
    reached('requests', requests, requestLimit, workers) ??
    reached('raw_isl_tokens', rawIslTokens, rawIslLimit, workers) ??
    reached('cached_tokens', cachedTokens, cachedLimit, workers)
  );
}

function reached(
  kind: LimitKind,
  current: number,
  perWorker: number | null,
  workers: number,
): ReachedLimit | null {
  if (perWorker === null) return null;
  const limit = perWorker * workers;
  return current >= limit ? { kind, current, limit } : null;
}
