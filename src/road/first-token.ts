// What the first token of an answer means: nothing of the prompt is left to compute.
import type { ExchangeBooking } from './exchange-booking.ts';
import type { RoadState } from './road-state.ts';
import type { RoadRequest } from './types.ts';

/** Notes it; call once per booking. @param arrivedAt when its request came, ms of the clock. */
export function noteFirstToken(
  { beliefs, clock, labelsOf, loadFell, metrics, scheduler }: RoadState,
  { partition }: RoadRequest,
  { attempt, decision, workerId }: ExchangeBooking,
  arrivedAt: number,
): void {
  const now = clock.now();
  scheduler.prefillCompleted(attempt);
  loadFell(workerId);
  beliefs?.computed(attempt);
  decision?.firstToken(now);
  const labels = labelsOf(partition.model).model;
  metrics.observe('pointsman_time_to_first_token_seconds', (now - arrivedAt) / 1000, labels);
}
