// What becomes of copies that selection committed: counted once when made and once when settled, so that the two sums agree.
import type { CommitFailure, CommitOutcome, CommitSetting, CopyCommit, HintBooking } from '../host/index.ts';
import type { DecisionRecord, Metrics } from '../observe/index.ts';

type CommitRecord = NonNullable<NonNullable<DecisionRecord['hints']>['commit']>;

/** A commit as the hint stage takes it. */
export function commitFor(
  commit: CopyCommit | null,
  setting: CommitSetting | null | undefined,
): NonNullable<HintBooking['commit']> | null {
  return commit === null ? null : { ...commit, stopOnFailure: setting?.onFailure === 'release' };
}

/** Counts a commit that a booking was made with. */
export function countCommitMade(metrics: Metrics, policy: string): void {
  metrics.count('pointsman_kv_copy_commits_made_total', { policy });
}

/**
 * Settles a commit by what the stage says of it; a stage that failed says nothing.
 * @returns what stands in the record.
 */
export function settleCommit(
  metrics: Metrics,
  policy: string,
  commit: NonNullable<HintBooking['commit']>,
  outcome: CommitOutcome | null | undefined,
): CommitRecord {
  const failure: CommitFailure | null = outcome == null ? 'stage_failed' : outcome.failure;
  const result = failure === null ? 'sent' : commit.stopOnFailure ? 'released' : 'degraded';
  metrics.count('pointsman_kv_copy_commits_settled_total', { policy, result, reason: failure ?? '' });
  const { source, prefixBlocks, additionalBlocks } = outcome ?? { ...commit, source: null };
  return {
    source: source === null ? null : { worker_id: source.workerId, dp_rank: source.rank },
    prefix_blocks: prefixBlocks,
    additional_blocks: additionalBlocks,
    result,
    reason: failure,
  };
}
