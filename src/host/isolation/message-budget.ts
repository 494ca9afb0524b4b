// How many messages nobody asked for a thread may send. Its own side keeps to far less; one that sends more is out of order.

/** Messages per second in the long run. */
export const MESSAGES_PER_SECOND = 500;
/** Messages at once. */
export const MOST_AT_ONCE = 1000;

/** The budget of one thread. */
export class MessageBudget {
  #left = MOST_AT_ONCE;
  #at: number;
  readonly #now: () => number;

  /** @param now ms of the machine: a thread sends by the machine's time, whatever the router's clock shows. */
  constructor(now: () => number) {
    this.#now = now;
    this.#at = now();
  }

  /** Takes one; false = it is used up. */
  take(): boolean {
    const now = this.#now();
    this.#left = Math.min(MOST_AT_ONCE, this.#left + ((now - this.#at) * MESSAGES_PER_SECOND) / 1000);
    this.#at = now;
    if (this.#left < 1) return false;
    this.#left -= 1;
    return true;
  }
}
