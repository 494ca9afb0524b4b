// An engine whose messages get lost, doubled, late and out of order, and which starts anew: the plain model that streams are
// tested against. A batch is a list of ids that become held or go.

/** One batch as published. */
export interface ModelBatch {
  readonly process: number;
  readonly sequence: number;
  /** Seconds. */
  readonly at: number;
  readonly stores: readonly number[];
  readonly removes: readonly number[];
}

/** Publishes batches and remembers them. */
export class LossyEngine {
  process = 0;
  held = new Set<number>();
  #history: ModelBatch[] = [];
  #sequence = 0;
  #now = 0;
  readonly #keeps: number;

  /** @param keeps batches of its history that it can repeat. */
  constructor(keeps: number) {
    this.#keeps = keeps;
  }

  /** Changes what it holds: stores `id` if it is not held, else removes it. */
  publish(id: number): ModelBatch {
    this.#now += 1;
    const isHeld = this.held.delete(id);
    if (!isHeld) this.held.add(id);
    const batch = {
      process: this.process,
      sequence: this.#sequence,
      at: this.#now,
      stores: isHeld ? [] : [id],
      removes: isHeld ? [id] : [],
    };
    this.#sequence += 1;
    this.#history.push(batch);
    if (this.#history.length > this.#keeps) this.#history.shift();
    return batch;
  }

  restart(): void {
    this.#now += 1;
    this.process += 1;
    this.#sequence = 0;
    this.#history = [];
    this.held = new Set();
  }

  /** What it answers to a request for everything from a number on. */
  replay(from: number): readonly ModelBatch[] {
    return this.#history.filter(({ sequence }) => sequence >= from);
  }
}
