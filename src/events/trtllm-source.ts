// Asks one TensorRT-LLM server for its KV events again and again: each question empties the queue of the server, so that nobody else may
// ask. What an answer says goes on as batches, numbered as the server numbers its events. HTTP itself is whoever's asks (`poll`).
import type { OwnerSlot } from '../kv/index.ts';
import { type Clock, errorText, PointsmanError } from '../plugin/index.ts';
import { encodeEventBatch } from './encode-batch.ts';
import { TrtllmEvents } from './trtllm-events.ts';
import type { KvEventSink, KvEventSource } from './types.ts';

/** Asks the server at an address once. Rejects when it cannot be reached, or `signal` fires. */
export type PollKvEvents = (
  address: string,
  signal: AbortSignal,
) => Promise<{ readonly status: number; readonly text: string }>;

/** What is asked. */
export interface TrtllmSubscription {
  /** Address of `/kv_cache_events`. */
  readonly endpoint: string;
  readonly owner: OwnerSlot;
  readonly sink: KvEventSink;
  /** Told of answers that cannot be used; the questions go on. */
  readonly onError: (error: PointsmanError) => void;
  /** Told when the server answers for the first time, and when it ceases to. */
  readonly onConnection?: (connected: boolean) => void;
  readonly poll: PollKvEvents;
  /** Tokens of a full block; null = not known yet, and nothing is asked. */
  readonly blockSizeOf: (owner: OwnerSlot) => number | null;
  readonly clock: Clock;
}

/** Pause behind an answer that had events, ms; behind each that had none it grows by half. */
export const POLL_MS = 50;
/** Longest pause while the server is idle, ms. */
export const IDLE_POLL_MS = 500;
/** Pause behind a question that failed, ms. */
export const FAILED_POLL_MS = 1_000;
/** Older releases answer after two seconds at most. */
const ANSWER_MS = 10_000;

/** Starts asking. The first question leaves at once; a server that does not answer is asked every second. */
export function pollTrtllm(subscription: TrtllmSubscription): KvEventSource {
  const polling = new Polling(subscription);
  void polling.ask();
  return { close: () => polling.close() };
}

class Polling {
  readonly #subscription: TrtllmSubscription;
  /** A worker of this dialect has one rank. */
  readonly #events = new TrtllmEvents(0);
  readonly #closed = new AbortController();
  #connected = false;
  #pauseMs = POLL_MS;
  #cancel: () => void = () => undefined;

  constructor(subscription: TrtllmSubscription) {
    this.#subscription = subscription;
  }

  close(): void {
    this.#cancel();
    this.#closed.abort();
  }

  async ask(): Promise<void> {
    const { blockSizeOf, clock, owner } = this.#subscription;
    const blockSize = blockSizeOf(owner);
    let pauseMs = FAILED_POLL_MS;
    if (blockSize !== null) {
      const answer = await this.#answer();
      if (this.#closed.signal.aborted) return;
      this.#connect(answer !== null);
      if (answer !== null) pauseMs = this.#take(answer, blockSize);
    }
    this.#cancel = clock.schedule(pauseMs, () => void this.ask());
  }

  /** Null = there was none. */
  async #answer(): Promise<string | null> {
    const { clock, endpoint, poll } = this.#subscription;
    const late = new AbortController();
    const cancel = clock.schedule(ANSWER_MS, () => late.abort());
    try {
      const { status, text } = await poll(endpoint, AbortSignal.any([late.signal, this.#closed.signal]));
      if (status === 200) return text;
      this.#report(`the server answered with status ${status}`);
    } catch (thrown) {
      if (!this.#closed.signal.aborted) this.#report(errorText(thrown), thrown);
    } finally {
      cancel();
    }
    return null;
  }

  /** @returns the pause until the next question, ms. */
  #take(text: string, blockSize: number): number {
    const { clock, owner, sink } = this.#subscription;
    try {
      const { batches, problems } = this.#events.read(text, blockSize, clock.now() / 1000);
      for (const problem of problems) this.#report(problem);
      for (const { batch, sequence } of batches) sink.onBatch(owner, sequence, encodeEventBatch(batch));
      const isIdle = batches.length + problems.length === 0;
      this.#pauseMs = isIdle ? Math.min(IDLE_POLL_MS, 1.5 * this.#pauseMs) : POLL_MS;
    } catch (thrown) {
      this.#report(errorText(thrown), thrown);
    }
    return this.#pauseMs;
  }

  #connect(connected: boolean): void {
    if (connected === this.#connected) return;
    this.#connected = connected;
    this.#subscription.onConnection?.(connected);
  }

  #report(problem: string, cause?: unknown): void {
    const { endpoint, onError } = this.#subscription;
    onError(new PointsmanError('PM_EVENT_MESSAGE', `KV events from ${endpoint}: ${problem}`, { cause }));
  }
}
