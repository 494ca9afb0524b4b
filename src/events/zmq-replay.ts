// Asks an engine's replay endpoint for batches it published before: a DEALER sends [empty, first number], the engine's ROUTER
// answers with every batch it still holds, [empty, topic, number, batch] or, by older engines, [empty, number, batch], and an end
// marker whose batch is empty. Each question has a socket of its own, so that no answer can be taken for another's.
import type { Dealer } from 'zeromq';
import { type Clock, errorText, PointsmanError } from '../plugin/index.ts';
import type { KvEventReplay, KvReplayListener } from './types.ts';
import { loadZeromq } from './zeromq.ts';
import { MAX_MESSAGE_BYTES, readMessages, sequenceFrame, sequenceOf } from './zmq-frames.ts';

/** An answer that says nothing for so long is over, ms. */
const IDLE_MS = 5_000;

/** No engine keeps more; vLLM keeps 10,000 batches. */
const MAX_BATCHES = 1_000_000;
const MAX_BYTES = 4 * 1024 ** 3;

/** So many messages that are none of an answer end it. */
const MAX_MALFORMED = 100;

/** Messages queued here before the engine's socket drops the rest of an answer, which then has a hole. */
const RECEIVE_HIGH_WATER_MARK = 100_000;

/** Where and how to ask. */
export interface ZmqReplayOptions {
  /** The engine's replay address, for example `tcp://10.0.0.7:5558`. */
  readonly endpoint: string;
  readonly clock: Clock;
  /** Told of what is wrong with an answer; it goes on, or the question fails. */
  readonly onError: (error: PointsmanError) => void;
  /** Longest silence within an answer, ms; default 5000. */
  readonly idleMs?: number;
  /** Most batches of one answer; default 1,000,000. */
  readonly maxBatches?: number;
}

/** A client of one engine rank's replay endpoint. */
export function zmqReplay(options: ZmqReplayOptions): KvEventReplay {
  return {
    replay(from, listener) {
      const question = new Question(options, listener);
      void question.ask(from);
      return () => question.end();
    },
  };
}

class Question {
  readonly #options: ZmqReplayOptions;
  readonly #listener: KvReplayListener;
  #socket: Dealer | null = null;
  #ended = false;
  #cancelTimer: () => void = () => undefined;
  #heardAt = 0;
  #batches = 0;
  #bytes = 0;
  #malformed = 0;

  constructor(options: ZmqReplayOptions, listener: KvReplayListener) {
    this.#options = options;
    this.#listener = listener;
  }

  async ask(from: number): Promise<void> {
    try {
      const zeromq = await loadZeromq();
      if (this.#ended) return;
      const socket = new zeromq.Dealer({
        linger: 0,
        receiveHighWaterMark: RECEIVE_HIGH_WATER_MARK,
        maxMessageSize: MAX_MESSAGE_BYTES,
        reconnectInterval: 50,
        reconnectMaxInterval: 1000,
      });
      this.#socket = socket;
      socket.connect(this.#options.endpoint);
      this.#heardAt = this.#options.clock.now();
      this.#watch(this.#idleMs);
      await socket.send([new Uint8Array(0), sequenceFrame(from)]);
      if (!this.#ended) await readMessages(socket, (frames) => this.#take(frames));
    } catch (cause) {
      if (this.#ended) return;
      this.#report(`asking for missed batches failed: ${errorText(cause)}`, cause);
      this.#fail('failed');
    }
  }

  /** Nothing is heard any more. Idempotent. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#cancelTimer();
    this.#socket?.close();
  }

  get #idleMs(): number {
    return this.#options.idleMs ?? IDLE_MS;
  }

  #watch(ms: number): void {
    this.#cancelTimer = this.#options.clock.schedule(ms, () => {
      const left = this.#heardAt + this.#idleMs - this.#options.clock.now();
      if (left > 0) this.#watch(left);
      else this.#fail('timed_out');
    });
  }

  #fail(failure: 'timed_out' | 'failed'): void {
    if (this.#ended) return;
    this.end();
    this.#listener.failed?.(failure);
  }

  /** Whether to read on. */
  #take(frames: readonly Uint8Array[]): boolean {
    if (this.#ended) return false;
    const payload = frames.at(-1);
    const number = frames.at(-2);
    const isAnswer = (frames.length === 3 || frames.length === 4) && frames[0]?.length === 0;
    if (!isAnswer || payload === undefined || number === undefined) {
      return this.#refuse(`a message of ${frames.length} frames is no answer`);
    }
    if (payload.length === 0) {
      this.end();
      this.#listener.ended();
      return false;
    }
    const sequence = sequenceOf(number);
    if (sequence === null) return this.#refuse('a sequence number is none of 8 bytes below 2^53');
    this.#heardAt = this.#options.clock.now();
    this.#batches += 1;
    this.#bytes += payload.length;
    if (this.#batches > (this.#options.maxBatches ?? MAX_BATCHES) || this.#bytes > MAX_BYTES) {
      this.#report(`an answer of more than ${this.#batches - 1} batches was broken off`);
      this.#fail('failed');
      return false;
    }
    try {
      this.#listener.batch(sequence, payload);
    } catch (cause) {
      this.#report(`applying a repeated batch failed: ${errorText(cause)}`, cause);
    }
    return !this.#ended;
  }

  #refuse(problem: string): boolean {
    this.#malformed += 1;
    this.#report(problem);
    if (this.#malformed < MAX_MALFORMED) return true;
    this.#fail('failed');
    return false;
  }

  #report(problem: string, cause?: unknown): void {
    this.#options.onError(
      new PointsmanError('PM_EVENT_MESSAGE', `KV event replay from ${this.#options.endpoint}: ${problem}`, {
        cause,
      }),
    );
  }
}
