// How often, and after which pauses, a hole is asked for again before it counts as lost by the engine itself.
import type { Clock } from '../plugin/index.ts';
import type { StreamLimits } from './stream-port.ts';

/** Answers without anything new. */
export class HoleRetries {
  readonly #clock: Clock;
  readonly #limits: StreamLimits;
  readonly #ask: () => void;
  #attempts = 0;
  #cancel: (() => void) | null = null;

  /** @param ask asks once more. */
  constructor(clock: Clock, limits: StreamLimits, ask: () => void) {
    this.#clock = clock;
    this.#limits = limits;
    this.#ask = ask;
  }

  /** Whether it will be asked again. */
  get isWaiting(): boolean {
    return this.#cancel !== null;
  }

  /** Asks again after a pause; false when that was done often enough. */
  again(progress: boolean): boolean {
    this.#attempts = progress ? 0 : this.#attempts + 1;
    if (this.#attempts >= this.#limits.attempts) {
      this.#attempts = 0;
      return false;
    }
    this.#cancel = this.#clock.schedule(this.#limits.pauseMs * 2 ** this.#attempts, () => {
      this.#cancel = null;
      this.#ask();
    });
    return true;
  }

  /** There is no hole any more, or it is given up. */
  over(): void {
    this.#attempts = 0;
  }

  /** Starts over, without a timer. */
  reset(): void {
    this.#attempts = 0;
    this.#cancel?.();
    this.#cancel = null;
  }
}
