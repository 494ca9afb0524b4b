// How many ranks a worker has: as configured, and by its engine's own account.
import type { Fleet, Worker } from '../fleet/index.ts';

/** Ranks of a worker. */
export interface RankCounts {
  /** As configured: the first one's number, and how many. */
  readonly first: number;
  readonly count: number;
  /** By the engine's own account; null = it does not say, or several workers share the ranks of one server. */
  readonly described: number | null;
}

/** The ranks of one worker of a fleet. */
export function rankCounts({ engine = null, spec }: Worker, fleet: Pick<Fleet, 'workers'>): RankCounts {
  const { count, first } = spec.ranks;
  const described = engine?.description.ranks ?? null;
  // The fleet is looked through only where there is something to say.
  const isShared =
    described !== null &&
    described !== count &&
    fleet.workers().some((other) => other.spec.id !== spec.id && other.spec.url === spec.url);
  return { first, count, described: first > 0 || isShared ? null : described };
}
