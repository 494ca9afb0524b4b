// Copies that selection committed during a run: what became of them, and whether the engines then found cached what was credited.
import type { DecisionBooking } from '../observe/index.ts';
import type { CommitReport } from './types.ts';

/** A sent commit whose request is under way; tokens that must be cached for it to be kept. */
export type AwaitedTokens = number;

/** Counts commits; made = sent + degraded + released. */
export class CommitTally {
  readonly #blockSize: number;
  #made = 0;
  #sent = 0;
  #degraded = 0;
  #released = 0;
  #covered = 0;
  #reported = 0;

  constructor(blockSize: number) {
    this.#blockSize = blockSize;
  }

  /** Takes one booking; answers what its sent commit awaits, or null. */
  booked({ hints }: DecisionBooking, inputTokens: number): AwaitedTokens | null {
    const commit = hints?.commit ?? null;
    if (commit === null) return null;
    this.#made += 1;
    if (commit.result === 'degraded') this.#degraded += 1;
    if (commit.result === 'released') this.#released += 1;
    if (commit.result !== 'sent') return null;
    this.#sent += 1;
    // An engine computes at least the last token and reuses whole blocks only.
    const reusable = Math.floor((inputTokens - 1) / this.#blockSize);
    return Math.min(commit.prefix_blocks, reusable) * this.#blockSize;
  }

  /** The request of a sent commit is complete. */
  completed(awaited: AwaitedTokens, cachedTokens: number): void {
    this.#reported += 1;
    if (cachedTokens >= awaited) this.#covered += 1;
  }

  /** Null when nothing was committed. */
  report(): CommitReport | null {
    if (this.#made === 0) return null;
    return {
      made: this.#made,
      sent: this.#sent,
      degraded: this.#degraded,
      released: this.#released,
      sent_and_completed: this.#reported,
      sent_and_covered: this.#covered,
    };
  }
}
