// The event stream of one virtual engine: numbers its batches, keeps them for replay, sends them through the faults asked for and
// hands them to whoever listens.
import type { KvEvent, KvEventBatch, KvEventSink } from '../../events/index.ts';
import type { OwnerSlot } from '../../kv/index.ts';
import type { EventFaults } from '../core/event-faults.ts';
import type { EventHistory } from '../core/event-history.ts';
import type { VirtualTime } from './virtual-time.ts';

/** Where an engine's events go: as bytes, or decoded when the receiver offers that and speed matters more. */
export interface VirtualEventLink {
  readonly owner: OwnerSlot;
  readonly sink: KvEventSink;
  readonly decoded?: (owner: OwnerSlot, sequence: number, batch: KvEventBatch) => void;
}

/** Hears the answer of a replay: kept batches in order, then the end. */
export interface VirtualReplayListener {
  batch(sequence: number, payload: Uint8Array): void;
  ended(): void;
}

/** Encodes a batch as engines do. */
export type EventEncoder = (batch: KvEventBatch) => Uint8Array;

/** One published batch on its way; `bytes` are null where only the decoded form is wanted. */
export interface VirtualEventMessage {
  readonly sequence: number;
  readonly batch: KvEventBatch;
  readonly bytes: Uint8Array | null;
}

/** What a stream is made of. */
export interface VirtualEventStreamParts {
  readonly time: VirtualTime;
  readonly rank: number;
  readonly encode: EventEncoder;
  /** Sees every batch when it is published; null = nobody does. */
  readonly watch: ((events: readonly KvEvent[]) => void) | null;
  /** null = nothing is kept, and batches nobody hears need not be encoded. */
  readonly history: EventHistory | null;
  /** null = every batch arrives as it is published. */
  readonly faults: EventFaults<VirtualEventMessage> | null;
}

/** One publisher in virtual time. */
export class VirtualEventStream {
  readonly #parts: VirtualEventStreamParts;
  #link: VirtualEventLink | null = null;
  #sequence = 0;
  #cancelArrival: () => void = () => undefined;

  constructor(parts: VirtualEventStreamParts) {
    this.#parts = parts;
  }

  /** Batches published since the engine's start. */
  get batches(): number {
    return this.#sequence;
  }

  /** Publishes to `link` from now on; null cuts the stream. */
  connect(link: VirtualEventLink | null): void {
    this.#link = link;
  }

  publish(events: readonly KvEvent[], at: number): void {
    const sequence = this.#sequence;
    this.#sequence += 1;
    const { encode, faults, history, rank, time, watch } = this.#parts;
    watch?.(events);
    if (this.#link === null && history === null) return;
    const batch: KvEventBatch = { timestamp: at / 1000, events, rank };
    const bytes = history !== null || !this.#link?.decoded ? encode(batch) : null;
    if (bytes !== null) history?.append(bytes);
    const message = { sequence, batch, bytes };
    if (faults === null) {
      this.#deliver(message);
      return;
    }
    faults.offer(message, time.now());
    this.#deliverDue(faults);
  }

  /**
   * Asks for every kept batch from `start` on, as over the wire: the question and the answer take `latencyMs` each, and live
   * batches may arrive in between. Returns a function after which nothing more is heard.
   */
  replay(start: number, latencyMs: number, listener: VirtualReplayListener): () => void {
    const { history, time } = this.#parts;
    let over = false;
    time.plan(time.now() + latencyMs, 'message', () => {
      const batches = history?.since(start) ?? [];
      time.plan(time.now() + latencyMs, 'message', () => {
        for (const { payload, sequence } of batches) {
          if (over) return;
          listener.batch(sequence, payload);
        }
        if (!over) listener.ended();
      });
    });
    return () => {
      over = true;
    };
  }

  /** The publisher died: a new one counts from 0 and keeps nothing of before. */
  restart(): void {
    this.#sequence = 0;
    this.#parts.history?.restart();
    this.#parts.faults?.restart();
  }

  #deliver({ batch, bytes, sequence }: VirtualEventMessage): void {
    const link = this.#link;
    if (link === null) return;
    if (link.decoded) link.decoded(link.owner, sequence, batch);
    else link.sink.onBatch(link.owner, sequence, bytes ?? this.#parts.encode(batch));
  }

  /** Delivers what has arrived and plans the next arrival. */
  #deliverDue(faults: EventFaults<VirtualEventMessage>): void {
    const { time } = this.#parts;
    this.#cancelArrival();
    for (const message of faults.takeDue(time.now())) this.#deliver(message);
    const next = faults.nextDue();
    this.#cancelArrival =
      next === null ? () => undefined : time.plan(next, 'message', () => this.#deliverDue(faults));
  }
}
