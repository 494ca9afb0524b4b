// Hands the batches of one stream on strictly in the order of their numbers: those that are early wait, those that were there
// before are left out. Keeps the marks that say what could not be handed on.
import { PendingBatches } from './pending-batches.ts';
import type { StreamLimits, StreamPort } from './stream-port.ts';

/** A batch that was applied: the engine's history must hold the same one under its number. */
export interface StreamPosition {
  /** -1 = none. */
  readonly sequence: number;
  /** Null = the batch has no time stamp, or was not applied. */
  readonly time: number | null;
}

/** The delivering part of a stream. */
export class OrderedBatches<M> {
  /** Batches are lost for good. */
  stale = false;
  /** The engine's history did not reach back. */
  partial = false;
  /** Blocks came from a copy, which does not tell how many copies of each the engine announced. */
  restored = false;
  readonly pending: PendingBatches<M>;
  readonly #port: StreamPort<M>;
  #watermark = -1;
  #time: number | null = null;

  constructor(port: StreamPort<M>, limits: StreamLimits) {
    this.#port = port;
    this.pending = new PendingBatches(limits.pendingBatches, limits.pendingBytes);
  }

  /** Number of the last batch that was applied or given up; -1 = none. */
  get watermark(): number {
    return this.#watermark;
  }

  get position(): StreamPosition {
    return { sequence: this.#watermark, time: this.#time };
  }

  /**
   * Applies a batch, and those that waited for it, or lets it wait.
   * @param isFinal the batch is left out if it cannot be read; otherwise it is as if it had not come.
   * @returns false when it was here before.
   */
  offer(sequence: number, message: M, isFinal: boolean): boolean {
    if (sequence <= this.#watermark || this.pending.has(sequence)) return false;
    if (sequence === this.#watermark + 1) {
      if (this.#take(sequence, message, isFinal)) this.drain(false);
      return true;
    }
    const bytes = this.#port.bytes(message);
    if (this.pending.hasRoom(bytes)) this.pending.add(sequence, this.#port.keep(message), bytes);
    else this.#port.happened('overflow');
    return true;
  }

  /** Applies what waited for the batch at the watermark. */
  drain(isFinal: boolean): void {
    for (;;) {
      const next = this.pending.take(this.#watermark + 1);
      if (next === undefined || !this.#take(this.#watermark + 1, next, isFinal)) return;
    }
  }

  /** Goes on behind a batch that was not applied, and applies what waited for it. */
  skipTo(watermark: number, isFinal: boolean): void {
    this.#watermark = watermark;
    this.#time = null;
    this.pending.dropUntil(watermark);
    this.drain(isFinal);
  }

  /** Number of the first batch behind the first hole; `end` when none waits. */
  nextKnown(end: number): number {
    return this.pending.lowest() ?? end;
  }

  /** Hands on what lies behind the first hole, which is lost; up to before `end` when nothing waits. */
  jump(end: number): void {
    this.stale = true;
    const next = this.nextKnown(end);
    const lost = next - 1 - this.#watermark;
    if (lost > 0) this.#port.missed(lost);
    this.skipTo(next - 1, true);
  }

  /** Goes on behind a batch whose blocks came from a copy. */
  resumeBehind(position: StreamPosition): void {
    this.skipTo(position.sequence, false);
    this.#time = position.time;
  }

  /** The blocks come from a copy with these marks. */
  wereRestored(stale: boolean, partial: boolean): void {
    this.stale = stale;
    this.partial = partial;
    this.restored = true;
  }

  /** All blocks are forgotten, so that nothing of what was missed before matters any more. */
  forgotten(partial: boolean): void {
    this.stale = false;
    this.restored = false;
    this.partial = partial;
  }

  /** As if nothing had come; what waits stays. */
  rewind(): void {
    this.#watermark = -1;
    this.#time = null;
  }

  /** As if nothing had come. */
  reset(): void {
    this.rewind();
    this.pending.clear();
    this.forgotten(false);
  }

  /** Applies the next batch; false when it cannot be read. */
  #take(sequence: number, message: M, isFinal: boolean): boolean {
    const outcome = this.#port.apply(sequence, message);
    if (outcome === 'undecodable') {
      if (!isFinal) return false;
      this.stale = true;
    } else if (outcome === 'cleared') {
      this.forgotten(false);
    }
    this.#watermark = sequence;
    this.#time = outcome === 'undecodable' ? null : this.#port.timestamp(message);
    return true;
  }
}
