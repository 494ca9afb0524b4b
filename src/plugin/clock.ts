// Injected time. Components never read the system's clock or set timers themselves, so the same code runs live, in virtual
// time and in tests.

/** Source of time and timers. Times are milliseconds, fractional, from an origin that never moves while the process lives. */
export interface Clock {
  /** Current time in ms. */
  now(): number;
  /**
   * Calls `callback` once, `delayMs` from now or later; returns a function that cancels it. A plugin's clock refuses what is no
   * number with PointsmanError PM_PLUGIN_INVALID.
   */
  schedule(delayMs: number, callback: () => void): () => void;
}

interface ManualTimer {
  readonly at: number;
  readonly order: number;
  readonly callback: () => void;
}

/** A clock that moves only when told to, for tests and virtual time. Timers fire in (time, creation) order. */
export class ManualClock implements Clock {
  #now: number;
  #order = 0;
  #timers: ManualTimer[] = [];

  constructor(startMs = 0) {
    this.#now = startMs;
  }

  now(): number {
    return this.#now;
  }

  schedule(delayMs: number, callback: () => void): () => void {
    const timer = { at: this.#now + Math.max(0, delayMs), order: this.#order++, callback };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /** Time of the earliest pending timer, or null. */
  nextTimerAt(): number | null {
    return this.#earliest()?.at ?? null;
  }

  /** Moves to `toMs`, firing every timer due on the way at its own time. Moving backwards does nothing. */
  advanceTo(toMs: number): void {
    for (let timer = this.#earliest(); timer && timer.at <= toMs; timer = this.#earliest()) {
      this.#timers = this.#timers.filter((other) => other !== timer);
      this.#now = Math.max(this.#now, timer.at);
      timer.callback();
    }
    this.#now = Math.max(this.#now, toMs);
  }

  #earliest(): ManualTimer | undefined {
    let best: ManualTimer | undefined;
    for (const timer of this.#timers) {
      if (!best || timer.at < best.at || (timer.at === best.at && timer.order < best.order)) best = timer;
    }
    return best;
  }
}
