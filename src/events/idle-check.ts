// Notices that a stream has been silent for long. Only a later message shows that one was lost: of an engine that says nothing more,
// the last ones would stay lost, so it is asked now and then whether there are any.
import type { Clock } from '../plugin/index.ts';

/** Pauses double from one question to the next, up to so many times the first. */
const LONGEST_PAUSES = 16;

/** The silence of one stream. */
export class IdleCheck {
  readonly #clock: Clock;
  readonly #firstPauseMs: () => number;
  readonly #ask: () => void;
  #since = 0;
  #pauseMs = 0;
  #dueAt = 0;
  #cancel: (() => void) | null = null;

  /**
   * @param firstPauseMs how long a stream may be silent; 0 = as long as it likes. Read when a message comes, and before
   * the engine is asked.
   * @param ask asks the engine.
   */
  constructor(clock: Clock, firstPauseMs: () => number, ask: () => void) {
    this.#clock = clock;
    this.#firstPauseMs = firstPauseMs;
    this.#ask = ask;
  }

  /** A message came, or the engine was just asked: the silence begins anew. */
  heard(): void {
    this.#pauseMs = this.#firstPauseMs();
    this.#since = this.#clock.now();
    // A timer per message would cost more than the message: the one that runs looks how long it really was. One of a longer pause is
    // too late.
    if (this.#cancel !== null && this.#dueAt > this.#since + this.#pauseMs) this.stop();
    if (this.#cancel === null && this.#pauseMs > 0) this.#wait(this.#pauseMs);
  }

  /** Nobody is to be asked any more, until something is heard. */
  stop(): void {
    this.#cancel?.();
    this.#cancel = null;
  }

  #wait(ms: number): void {
    this.#dueAt = this.#clock.now() + ms;
    this.#cancel = this.#clock.schedule(ms, () => {
      this.#cancel = null;
      const first = this.#firstPauseMs();
      if (first === 0) return;
      const left = this.#since + this.#pauseMs - this.#clock.now();
      if (left > 0) {
        this.#wait(left);
        return;
      }
      this.#since = this.#clock.now();
      this.#pauseMs = Math.min(2 * this.#pauseMs, LONGEST_PAUSES * first);
      this.#wait(this.#pauseMs);
      this.#ask();
    });
  }
}
