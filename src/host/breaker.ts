// The circuit breaker of one plugin in one role: too many failures or overruns within a window trip it, then it lets nobody
// through for a while, then one call that decides. Pure state over given times; who is told of what is plugin-guard.ts's.

/** When a breaker trips and for how long. Counts from 1: the breaker remembers the time of each; times in ms. */
export interface BreakerSettings {
  /** Failures within the window that trip it. */
  readonly failures: number;
  /** Overruns of the budget within the window that trip it. */
  readonly overruns: number;
  readonly windowMs: number;
  /** How long nothing is let through after a trip. */
  readonly skipMs: number;
}

/** `ok`: calls go through. `tripped`: none does. `probing`: one call is under way that decides. */
export type BreakerState = 'ok' | 'tripped' | 'probing';

/** What a settled call did to the breaker; null = nothing. */
export type BreakerChange = 'tripped' | 'recovered' | null;

/** How a call went. */
export type CallOutcome = 'ok' | 'overran' | 'failed';

/** The breaker. Times are ms of one clock and never go back. */
export class Breaker {
  readonly #settings: BreakerSettings;
  readonly #failures: RecentTimes;
  readonly #overruns: RecentTimes;
  #state: BreakerState = 'ok';
  #until = 0;

  constructor(settings: BreakerSettings) {
    this.#settings = settings;
    this.#failures = new RecentTimes(settings.failures);
    this.#overruns = new RecentTimes(settings.overruns);
  }

  get state(): BreakerState {
    return this.#state;
  }

  /** End of the pause after the last trip; ms. Says something while tripped only. */
  get until(): number {
    return this.#until;
  }

  /** Whether a call may be made now. After the pause the first one becomes the probe: its {@link settle} must follow. */
  admit(nowMs: number): boolean {
    if (this.#state === 'ok') return true;
    if (!this.wouldAdmit(nowMs)) return false;
    this.#state = 'probing';
    return true;
  }

  /** Whether {@link admit} would say yes; changes nothing. */
  wouldAdmit(nowMs: number): boolean {
    return this.#state === 'ok' || (this.#state === 'tripped' && nowMs >= this.#until);
  }

  /**
   * Takes the outcome of an admitted call. A probe that went well closes the breaker and forgets the past, any other trips it
   * again. Calls that were admitted before a trip and end after it change nothing.
   */
  settle(nowMs: number, outcome: CallOutcome): BreakerChange {
    if (this.#state === 'probing') {
      if (outcome !== 'ok') return this.#trip(nowMs);
      this.#state = 'ok';
      return 'recovered';
    }
    if (this.#state === 'tripped' || outcome === 'ok') return null;
    const times = outcome === 'failed' ? this.#failures : this.#overruns;
    return times.add(nowMs, this.#settings.windowMs) ? this.#trip(nowMs) : null;
  }

  /** The probe came to nothing, which says neither good nor bad of the plugin: the next call is one. */
  probeAgain(): void {
    if (this.#state === 'probing') this.#state = 'tripped';
  }

  #trip(nowMs: number): 'tripped' {
    this.#state = 'tripped';
    this.#until = nowMs + this.#settings.skipMs;
    this.#failures.clear();
    this.#overruns.clear();
    return 'tripped';
  }
}

/** The last `size` times something happened, in a ring. */
class RecentTimes {
  readonly #times: Float64Array;
  #count = 0;
  #next = 0;

  constructor(size: number) {
    this.#times = new Float64Array(size);
  }

  /** Notes a time; answers whether the ring is full of times no more than `windowMs` ago. */
  add(nowMs: number, windowMs: number): boolean {
    const times = this.#times;
    times[this.#next] = nowMs;
    this.#next = (this.#next + 1) % times.length;
    this.#count = Math.min(this.#count + 1, times.length);
    return this.#count === times.length && nowMs - (times[this.#next] ?? 0) <= windowMs;
  }

  clear(): void {
    this.#count = 0;
  }
}
