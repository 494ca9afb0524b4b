// When a router that just started knows its workers: each was asked about itself once, and the event streams they named are
// connected. Requests before that would be placed blindly, and the blocks they store would be missed.
import type { Fleet, Probe } from '../fleet/index.ts';
import type { Clock } from '../plugin/index.ts';
import type { SubscriptionStatus } from './event-subscriptions.ts';

/** Watches the first round of questions. */
export class FirstAnswers {
  readonly #fleet: Fleet;
  readonly #streams: () => readonly SubscriptionStatus[];
  readonly #clock: Clock;
  readonly #answered = new Set<bigint>();
  readonly #healthy = new Set<bigint>();
  #settled = false;
  #waiting: (() => void)[] = [];

  constructor(fleet: Fleet, streams: () => readonly SubscriptionStatus[], clock: Clock) {
    this.#fleet = fleet;
    this.#streams = streams;
    this.#clock = clock;
  }

  /** True from the moment everybody answered, or the time for it is over. */
  get settled(): boolean {
    return this.#settled;
  }

  /** Whether a health check of this worker ever succeeded; a worker that joins counts as ready before. */
  everHealthy(id: bigint): boolean {
    return this.#healthy.has(id);
  }

  /** The probe, watched. */
  around(probe: Probe): Probe {
    return async (worker, context) => {
      try {
        const result = await probe(worker, context);
        if (result.healthy) this.#healthy.add(worker.spec.id);
        return result;
      } finally {
        this.#answered.add(worker.spec.id);
        // Whoever asked takes the answer first: it may name event streams.
        setImmediate(() => this.look());
      }
    };
  }

  /** Looks whether everybody answered. */
  look(): void {
    if (this.#settled) return;
    const missing = this.#fleet
      .workers()
      .some(({ spec, state }) => state === 'ready' && !this.#answered.has(spec.id));
    const cut = this.#streams().some((stream) => {
      const alive = this.#fleet.worker(stream.worker)?.state === 'ready';
      return alive && stream.endpoint !== null && !stream.connected;
    });
    if (!missing && !cut) this.#settle();
  }

  /** Resolves when everybody answered, at the latest after `ms`. */
  wait(ms: number): Promise<void> {
    this.look();
    if (this.#settled) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#clock.schedule(ms, () => this.#settle());
    });
  }

  #settle(): void {
    this.#settled = true;
    for (const tell of this.#waiting.splice(0)) tell();
  }
}
