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
  const { slots } = candidates;
  table.begin(slots.length, fleet.slotCapacity);
  excluded.count = 0;
  let from = 0;
  let to = slots.length;
  // Of a pinned request all but the ranks of one worker, which stand together, are out; with an allow-list the reason may be another.
  if (rules.pinnedWorker !== null && rules.allowed === null) {
    const pinned = fleet.worker(rules.pinnedWorker)?.slots ?? [];
    while (from < to && !pinned.includes(slots[from] ?? -1)) from += 1;
    to = Math.min(to, from + pinned.length);
    excluded.addRange(slots, 0, from, NOT_PINNED);
  }
  for (let index = from; index < to; index += 1) {
    const slot = slots[index] ?? 0;
    const reason = exclusionOf(fleet.workerOfSlot(slot), candidates.ranks[index] ?? 0, rules);
    if (reason >= 0) excluded.add(slot, reason);
    else if (busy !== null && busy[index] === 1) excluded.add(slot, BUSY);
    else table.admit(candidates, index);
  }
  if (to < slots.length) excluded.addRange(slots, to, slots.length, NOT_PINNED);
}
