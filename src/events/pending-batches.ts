// Batches that came before their turn, until those before them are there. Bounded: what finds no room is asked for again later.

/** Batches by sequence number. */
export class PendingBatches<M> {
  readonly #batches = new Map<number, { readonly message: M; readonly bytes: number }>();
  readonly #maxBatches: number;
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBatches: number, maxBytes: number) {
    this.#maxBatches = maxBatches;
    this.#maxBytes = maxBytes;
  }

  get count(): number {
    return this.#batches.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  has(sequence: number): boolean {
    return this.#batches.has(sequence);
  }

  /** Whether there is room for one more of a size. */
  hasRoom(bytes: number): boolean {
    return this.#batches.size < this.#maxBatches && this.#bytes + bytes <= this.#maxBytes;
  }

  add(sequence: number, message: M, bytes: number): void {
    this.#batches.set(sequence, { message, bytes });
    this.#bytes += bytes;
  }

  /** Takes a batch out; undefined when it is not here. */
  take(sequence: number): M | undefined {
    const entry = this.#batches.get(sequence);
    if (entry === undefined) return undefined;
    this.#batches.delete(sequence);
    this.#bytes -= entry.bytes;
    return entry.message;
  }

  /** Lowest number here; null = empty. Looks at all of them: for the rare moment when a hole is given up. */
  lowest(): number | null {
    let lowest: number | null = null;
    for (const sequence of this.#batches.keys()) {
      if (lowest === null || sequence < lowest) lowest = sequence;
    }
    return lowest;
  }

  /** Drops all up to a number. */
  dropUntil(sequence: number): void {
    for (const key of [...this.#batches.keys()]) if (key <= sequence) this.take(key);
  }

  clear(): void {
    this.#batches.clear();
    this.#bytes = 0;
  }
}
