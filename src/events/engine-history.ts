// Whether an engine repeats anything at all. An answer without batches is that of a new process, or of an engine that keeps none: what
// is heard next tells which.

/** What is known of one engine's history. */
export class EngineHistory {
  /** The last batch known when the answer was empty; null = the last answer was not. */
  #emptyBehind: number | null = null;
  #isNone = false;

  /** The engine keeps no batches: that it has none says nothing. */
  get isNone(): boolean {
    return this.#isNone;
  }

  /** A live batch: the process that had none any more goes on counting, or is another. */
  heard(sequence: number): void {
    if (this.#emptyBehind === null) return;
    this.#isNone = sequence > this.#emptyBehind;
    this.#emptyBehind = null;
  }

  /** An answer has a batch. */
  answered(): void {
    this.#isNone = false;
    this.#emptyBehind = null;
  }

  /** An answer is empty although this batch was heard. */
  wasEmpty(behind: number): void {
    this.#emptyBehind = behind;
  }
}
