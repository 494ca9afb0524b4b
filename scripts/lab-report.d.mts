import type { FinishedLabCell, LabCell } from './lab-grid.d.mts';

/** The page as Markdown. */
export function findings(options: {
  readonly finished: readonly FinishedLabCell[];
  /** What the whole grid would have. */
  readonly planned: readonly LabCell[];
  /** Builds that the replays are of. */
  readonly builds: number;
  /** Requests of each trace that were replayed; null = all of the part. */
  readonly requests: number | null;
}): string;
/** What is wrong with the figures, in words. */
export function labProblems(finished: readonly FinishedLabCell[]): string[];
