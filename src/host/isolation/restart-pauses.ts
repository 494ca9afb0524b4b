// How long to wait before a plugin gets its next thread: not at all after one that ran well, longer and longer while they keep ending.

/** A thread that ends sooner than this after its start makes the next pause longer; ms. */
export const STEADY_MS = 30_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 30_000;

/** The pauses of one instance. */
export class RestartPauses {
  #early = 0;

  /** The pause after a thread that lived `livedMs`; ms. */
  next(livedMs: number): number {
    this.#early = livedMs >= STEADY_MS ? 1 : this.#early + 1;
    return this.#early === 1 ? 0 : Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (this.#early - 2));
  }
}
