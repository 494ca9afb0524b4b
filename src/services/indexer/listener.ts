// One rank's subscription of the indexer, and what is known of it.
import {
  type KvEventApplier,
  type KvEventSource,
  subscribeZmq,
  type ZmqSubscription,
  zmqReplay,
} from '../../events/index.ts';
import type { OwnerSlot } from '../../kv/index.ts';
import { type Clock, errorText, type Logger, PointsmanError } from '../../plugin/index.ts';

/** How a subscription stands. */
export type ListenerStatus = 'pending' | 'active' | 'paused' | 'failed';

/** Opens a subscription; {@link subscribeZmq} outside of tests. */
export type Subscribe = (subscription: ZmqSubscription) => Promise<KvEventSource>;

/** Where a subscription's messages and states go. */
export type ListenerSink = Pick<KvEventApplier, 'onBatch' | 'onConnection' | 'askAt'>;

/** What a listener is made of. */
export interface ListenerOptions {
  readonly endpoint: string;
  /** Where missed batches are asked for; null = nowhere. */
  readonly replayEndpoint: string | null;
  readonly slot: OwnerSlot;
  readonly sink: ListenerSink;
  readonly clock: Clock;
  readonly log: Logger;
  readonly subscribe?: Subscribe;
}

/** One subscription. */
export class IndexerListener {
  readonly endpoint: string;
  readonly replayEndpoint: string | null;
  readonly slot: OwnerSlot;
  readonly #options: ListenerOptions;
  #source: KvEventSource | null = null;
  #status: ListenerStatus = 'pending';
  #lastError: string | null = null;
  #messages = 0;
  /** Counts openings, so that what an older one still delivers is dropped. */
  #opening = 0;

  constructor(options: ListenerOptions) {
    this.endpoint = options.endpoint;
    this.replayEndpoint = options.replayEndpoint;
    this.slot = options.slot;
    this.#options = options;
  }

  get status(): ListenerStatus {
    return this.#status;
  }

  /** The newest thing that was wrong; null = nothing. */
  get lastError(): string | null {
    return this.#lastError;
  }

  /** Connects. @throws PM_INDEXER_REQUEST for what is no address. */
  async open(): Promise<void> {
    const { clock, log, sink, slot, subscribe = subscribeZmq } = this.#options;
    this.#opening += 1;
    const opening = this.#opening;
    const isCurrent = (): boolean => opening === this.#opening;
    this.#status = 'pending';
    const onError = (error: PointsmanError): void => {
      this.#lastError = error.message;
      // The 1st, 2nd, 4th, 8th, …: a publisher of something else must not drown the log.
      const messages = ++this.#messages;
      if ((messages & (messages - 1)) === 0) log.warn(error.message, { code: error.code, messages });
    };
    const endpoint = this.replayEndpoint;
    sink.askAt(slot, endpoint === null ? null : zmqReplay({ endpoint, clock, onError }));
    try {
      const source = await subscribe({
        endpoint: this.endpoint,
        topic: '',
        owner: slot,
        sink: {
          onBatch(owner, sequence, payload) {
            if (isCurrent()) sink.onBatch(owner, sequence, payload);
          },
        },
        onError,
        onConnection: (connected) => {
          if (!isCurrent()) return;
          this.#status = connected ? 'active' : 'pending';
          sink.onConnection(slot, connected);
        },
      });
      if (isCurrent()) this.#source = source;
      else source.close();
    } catch (cause) {
      this.#status = 'failed';
      this.#lastError = errorText(cause);
      throw new PointsmanError('PM_INDEXER_REQUEST', errorText(cause), { cause });
    }
  }

  /** Ends the subscription; `open` begins another. */
  pause(): void {
    this.close();
    this.#status = 'paused';
  }

  /** Ends the subscription. Idempotent. */
  close(): void {
    this.#opening += 1;
    this.#source?.close();
    this.#source = null;
    const { sink, slot } = this.#options;
    sink.onConnection(slot, false);
    sink.askAt(slot, null);
  }
}

/** Batches that came while a peer was asked, until they may be applied. */
export class EventGate {
  readonly #waiting: { events: KvEventApplier; owner: OwnerSlot; sequence: number; payload: Uint8Array }[] =
    [];
  /** Owners whose connection stood meanwhile, which are asked what they published before. */
  readonly #connected = new Map<KvEventApplier, Set<OwnerSlot>>();
  #bytes = 0;
  #isOpen = false;

  /** A sink that waits while the gate is closed. What has no room is dropped, and shows as a gap. */
  before(events: KvEventApplier): ListenerSink {
    const connected = this.#connected.get(events) ?? new Set();
    this.#connected.set(events, connected);
    return {
      askAt: (owner, replay) => events.askAt(owner, replay),
      onConnection: (owner, isConnected) => {
        if (this.#isOpen) events.onConnection(owner, isConnected);
        else if (isConnected) connected.add(owner);
        else connected.delete(owner);
      },
      onBatch: (owner, sequence, payload) => {
        if (this.#isOpen) {
          events.onBatch(owner, sequence, payload);
          return;
        }
        if (this.#waiting.length >= MAX_WAITING || this.#bytes + payload.length > MAX_WAITING_BYTES) return;
        this.#bytes += payload.length;
        this.#waiting.push({ events, owner, sequence, payload: payload.slice() });
      },
    };
  }

  /** Applies what waits and lets everything through. Batches that a peer's blocks have already are skipped. */
  open(): void {
    this.#isOpen = true;
    for (const { events, owner, sequence, payload } of this.#waiting.splice(0)) {
      if (sequence > (events.feed(owner)?.lastSequence ?? -1)) events.onBatch(owner, sequence, payload);
    }
    this.#bytes = 0;
    for (const [events, owners] of this.#connected) {
      for (const owner of owners) events.onConnection(owner, true);
    }
    this.#connected.clear();
  }
}

const MAX_WAITING = 100_000;
const MAX_WAITING_BYTES = 64 * 1024 * 1024;
