// Takes cleared blocks away: all at once, or a piece now and the others later.
import type { ClearedBlocks } from './cleared-blocks.ts';

/** The sweeps of one index. */
export class Sweeper {
  readonly #cleared: ClearedBlocks;
  readonly #later: ((work: () => void) => void) | undefined;
  #waits = false;

  /** @param later runs `work` soon, never at once; absent = all is done at once. */
  constructor(cleared: ClearedBlocks, later: ((work: () => void) => void) | undefined) {
    this.#cleared = cleared;
    this.#later = later;
  }

  /** A clear came. */
  sweep(): void {
    if (this.#later === undefined) {
      this.sweepAll();
    } else if (!this.#waits && !this.#cleared.sweep()) {
      this.#waits = true;
      this.#later(() => {
        this.#waits = false;
        this.sweep();
      });
    }
  }

  /** Leaves nothing for later. */
  sweepAll(): void {
    while (!this.#cleared.sweep()) {}
  }
}
