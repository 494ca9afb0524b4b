// Bookings whose owner is gone. A booking lives as long as its request gets on or somebody waits for it, however old it is; one that
// nobody would ever end is found here and ended.
import type { Exchange } from './exchange.ts';
import type { RoadState } from './road-state.ts';

/** The leases of a road's bookings: a clock that gives each a second chance. */
export class BookingLeases {
  readonly #state: RoadState;
  readonly #periodMs: () => number;
  #lookedAtMs = -Number.MAX_VALUE;

  /** @param periodMs time between two looks, > 0; a booking ends one to two of them after its last progress. */
  constructor(state: RoadState, periodMs: () => number) {
    this.#state = state;
    this.#periodMs = periodMs;
  }

  /** Looks at all bookings if it is time; returns ms until the next time. */
  review(nowMs: number): number {
    const periodMs = this.#periodMs();
    const waitMs = this.#lookedAtMs + periodMs - nowMs;
    if (waitMs > 0) return waitMs;
    this.#lookedAtMs = nowMs;
    this.#look();
    return periodMs;
  }

  #look(): void {
    const { exchanges, metrics, scheduler } = this.#state;
    const owners = new Map<number, Exchange>();
    for (const exchange of exchanges) if (exchange.attempt !== null) owners.set(exchange.attempt, exchange);
    const idle = scheduler.idleBookings((attempt) => owners.get(attempt)?.takeProgress() ?? false);
    for (const attempt of idle) {
      const owner = owners.get(attempt);
      // The end of one may have ended another; an attempt that is over frees nothing.
      if (owner === undefined) {
        if (scheduler.release(attempt))
          metrics.count('pointsman_bookings_expired_total', { reason: 'unowned' });
      } else if (owner.attempt === attempt && owner.expire())
        metrics.count('pointsman_bookings_expired_total', { reason: 'abandoned' });
    }
  }
}
