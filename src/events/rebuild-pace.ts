// When an engine may be asked for its whole history again, and how long one that did not answer is left alone.
import type { Clock } from '../plugin/index.ts';

/** Pauses get longer, up to so many times the first. */
const LONGEST_PAUSES = 16;

/** Pauses between the rebuilds of one stream. */
export class RebuildPace {
  readonly #clock: Clock;
  readonly #firstPauseMs: number;
  #pauseMs: number;
  #lastAt = Number.NEGATIVE_INFINITY;
  #quietUntil = Number.NEGATIVE_INFINITY;
  #cancel: (() => void) | null = null;

  /** @param pauseMs least time between two rebuilds, doubled each time. */
  constructor(clock: Clock, pauseMs: number) {
    this.#clock = clock;
    this.#firstPauseMs = pauseMs;
    this.#pauseMs = pauseMs;
  }

  /** The engine did not answer a short while ago. */
  get isQuiet(): boolean {
    return this.#clock.now() < this.#quietUntil;
  }

  /** Whether the last rebuild is long enough ago. */
  get isDue(): boolean {
    return this.#clock.now() >= this.#lastAt + this.#pauseMs;
  }

  /** Calls `begin` as soon as a rebuild may begin; at once if it may now. Asked again while it waits, it does nothing. */
  later(begin: () => void): void {
    if (this.#cancel !== null) return;
    const wait = this.#lastAt + this.#pauseMs - this.#clock.now();
    if (wait <= 0) begin();
    else {
      this.#cancel = this.#clock.schedule(wait, () => {
        this.#cancel = null;
        // The engine may have been silent once more.
        this.later(begin);
      });
    }
  }

  /** A rebuild is asked for. */
  began(): void {
    this.#lastAt = this.#clock.now();
    this.#pauseMs = Math.min(2 * this.#pauseMs, LONGEST_PAUSES * this.#firstPauseMs);
  }

  /** The engine did not answer. */
  failed(): void {
    this.#lastAt = this.#clock.now();
    this.#quietUntil = this.#lastAt + this.#pauseMs;
  }

  /** The engine can be reached anew. */
  reachable(): void {
    this.#quietUntil = Number.NEGATIVE_INFINITY;
  }

  /** Starts over, without a timer. */
  reset(): void {
    this.#pauseMs = this.#firstPauseMs;
    this.reachable();
    this.#cancel?.();
    this.#cancel = null;
  }
}
