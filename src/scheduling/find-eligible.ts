// Sorts the ranks of a partition into candidates and those that may not take the request, each with its reason.
import type { Fleet, PartitionCandidates } from '../fleet/index.ts';
import type { CandidateColumns } from './candidate-table.ts';
import { BUSY, type EligibilityRules, type ExcludedColumns, exclusionOf, NOT_PINNED } from './eligibility.ts';

/**
 * Fills `table` with whoever may take the request, and `excluded` with the others.
 * @param busy 1 = the worker of this candidate is busy; null = nobody is.
 */
export function findEligible(
  fleet: Fleet,
  candidates: PartitionCandidates,
  rules: EligibilityRules,
  busy: Uint8Array | null,
  table: CandidateColumns,
  excluded: ExcludedColumns,
): void {
  const { slots, ranks } = candidates;
  // Of a pinned request all but a few are out, which their slots tell; with an allow-list the reason may be another.
  const isPinned = rules.pinnedWorker !== null && rules.allowed === null;
  const pinned = isPinned ? (fleet.worker(rules.pinnedWorker ?? 0n)?.slots ?? []) : null;
  table.begin(slots.length, fleet.slotCapacity);
  excluded.count = 0;
  for (let index = 0; index < slots.length; index += 1) {
    const slot = slots[index] ?? 0;
    if (pinned !== null && !pinned.includes(slot)) {
      excluded.add(slot, NOT_PINNED);
      continue;
    }
    const reason = exclusionOf(fleet.workerOfSlot(slot), ranks[index] ?? 0, rules);
    if (reason >= 0) excluded.add(slot, reason);
    else if (busy !== null && busy[index] === 1) excluded.add(slot, BUSY);
    else table.admit(candidates, index);
  }
}
