// The batches that one rank published last, kept for subscribers that missed some, as vLLM's publisher keeps them: a ring, the
// oldest dropped first. Numbers batches from 0 at each start of the engine. Both shells answer replays out of it.

/** Batches a history keeps by default: vLLM's `buffer_steps`. */
export const DEFAULT_EVENT_HISTORY = 10_000;
/** Batches a history may be asked to keep. */
export const MAX_EVENT_HISTORY = 1_000_000;
/** Bytes of all kept batches; beyond it the oldest go, however few are left. */
export const MAX_EVENT_HISTORY_BYTES = 512 * 1024 * 1024;

/** One batch as it was published. */
export interface PublishedBatch {
  /** From 0 at the engine's start, one more per batch. */
  readonly sequence: number;
  /** msgpack bytes of the batch; not to be changed. */
  readonly payload: Uint8Array;
}

/** A bounded record of published batches. */
export class EventHistory {
  readonly #capacity: number;
  readonly #maxBytes: number;
  /** The batch with number n lies at n modulo the capacity. */
  readonly #ring: (PublishedBatch | undefined)[] = [];
  #next = 0;
  #kept = 0;
  #bytes = 0;

  /**
   * @param capacity batches kept at most; 0 = none, numbers are given all the same.
   * @param maxBytes bytes of payload kept at most.
   */
  constructor(capacity: number, maxBytes: number = MAX_EVENT_HISTORY_BYTES) {
    this.#capacity = capacity;
    this.#maxBytes = maxBytes;
  }

  /** Batches kept now; they are the newest ones, without a hole. */
  get kept(): number {
    return this.#kept;
  }

  /** Numbers the next batch and keeps it. */
  append(payload: Uint8Array): PublishedBatch {
    const batch: PublishedBatch = { sequence: this.#next, payload };
    this.#next += 1;
    if (this.#capacity === 0) return batch;
    if (this.#kept === this.#capacity) this.#drop(batch.sequence - this.#kept);
    this.#ring[batch.sequence % this.#capacity] = batch;
    this.#kept += 1;
    this.#bytes += payload.length;
    while (this.#bytes > this.#maxBytes) this.#drop(this.#next - this.#kept);
    return batch;
  }

  /**
   * Every kept batch with a number of at least `start`, in order. It may begin later than asked: what is dropped is not told
   * of, the receiver sees it at the first number.
   */
  since(start: number): readonly PublishedBatch[] {
    const batches: PublishedBatch[] = [];
    for (let sequence = Math.max(start, this.#next - this.#kept); sequence < this.#next; sequence += 1) {
      const batch = this.#ring[sequence % this.#capacity];
      if (batch !== undefined) batches.push(batch);
    }
    return batches;
  }

  /** Begins anew, as an engine that was just started: nothing kept, numbers from 0. */
  restart(): void {
    this.#ring.length = 0;
    this.#next = 0;
    this.#kept = 0;
    this.#bytes = 0;
  }

  #drop(oldest: number): void {
    const place = oldest % this.#capacity;
    this.#bytes -= this.#ring[place]?.payload.length ?? 0;
    this.#ring[place] = undefined;
    this.#kept -= 1;
  }
}
