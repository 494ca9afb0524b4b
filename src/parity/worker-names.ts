// Workers in words.
import type { Fleet } from '../fleet/index.ts';
import type { OwnerSlot } from '../kv/index.ts';

/** Workers named one by one at most. */
const MOST_NAMES = 3;

/** The workers of some ranks, for a sentence: `worker 1, worker 2 and 5 more`; each once. */
export function workerNames(slots: readonly OwnerSlot[], fleet: Pick<Fleet, 'slotWorkerId'>): string {
  const ids = slots.flatMap((slot) => fleet.slotWorkerId(slot) ?? []);
  const names = [...new Set(ids)].map((id) => `worker ${id}`);
  return names.length > MOST_NAMES
    ? `${names.slice(0, MOST_NAMES).join(', ')} and ${names.length - MOST_NAMES} more`
    : names.join(', ');
}
