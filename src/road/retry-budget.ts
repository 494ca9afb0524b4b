// How much of the load may be second tries: a fleet that fails every request must not be asked three times as often.

/** Tries that may be saved up, and are there from the start: what one worker of a large fleet may have under way when it dies. */
const SAVED_UP = 256;

/** Each request that may be tried again earns a part of a retry when it goes to its first worker; a retry takes a whole one. */
export class RetryBudget {
  readonly #ratio: () => number;
  #saved = SAVED_UP;

  /** @param ratio retries per request in the long run, 0 to 1. */
  constructor(ratio: () => number) {
    this.#ratio = ratio;
  }

  /** A request goes to its first worker; those that are refused before ask nobody, and earn nothing. */
  sent(): void {
    this.#saved = Math.min(SAVED_UP, this.#saved + this.#ratio());
  }

  /** Takes one retry out; false when none is left. */
  take(): boolean {
    if (this.#saved < 1 || this.#ratio() === 0) return false;
    this.#saved -= 1;
    return true;
  }
}
