// A road that gets no requests still looks for bookings whose owner is gone.
import type { Clock } from '../plugin/index.ts';
import type { Road } from '../road/index.ts';

/** Longest wait in ms: soon enough for a reloaded period, and no more than timers take. */
const MAX_WAIT_MS = 60_000;

/** Tells the road when it is time; returns what stops it. */
export function expireBookings(road: Pick<Road, 'expireBookings'>, clock: Clock): () => void {
  let cancel = (): void => undefined;
  const look = (): void => {
    cancel = clock.schedule(Math.min(road.expireBookings(), MAX_WAIT_MS), look);
  };
  look();
  return () => cancel();
}
