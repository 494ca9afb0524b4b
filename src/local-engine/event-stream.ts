// The KV events of an engine in this process, as bytes on the road that engines elsewhere use: numbered batches, the last ones kept for
// whoever missed some.
import {
  encodeEventBatch,
  type KvEvent,
  type KvEventReplay,
  type KvEventSink,
  type KvEventSource,
} from '../events/index.ts';
import type { OwnerSlot } from '../kv/index.ts';
import type { Clock } from '../plugin/index.ts';
import { DEFAULT_EVENT_HISTORY, EventHistory } from '../simulator/index.ts';

/** Bytes of batches that are kept. */
const MAX_KEPT_BYTES = 64 * 1024 * 1024;

interface Listener {
  readonly owner: OwnerSlot;
  readonly sink: KvEventSink;
}

/** One publisher. */
export class LocalEventStream {
  readonly #clock: Clock;
  readonly #history = new EventHistory(DEFAULT_EVENT_HISTORY, MAX_KEPT_BYTES);
  readonly #listeners = new Set<Listener>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Publishes one batch. */
  publish(events: readonly KvEvent[]): void {
    const payload = encodeEventBatch({ timestamp: this.#clock.now() / 1000, events, rank: 0 });
    const { sequence } = this.#history.append(payload);
    for (const { owner, sink } of this.#listeners) sink.onBatch(owner, sequence, payload);
  }

  /** Delivers from now on. */
  connect(owner: OwnerSlot, sink: KvEventSink): KvEventSource {
    const listener = { owner, sink };
    this.#listeners.add(listener);
    return { close: () => void this.#listeners.delete(listener) };
  }

  /** Asks for what is kept. */
  readonly replay: KvEventReplay = {
    replay: (from, listener) =>
      this.#clock.schedule(0, () => {
        for (const { payload, sequence } of this.#history.since(from)) listener.batch(sequence, payload);
        listener.ended();
      }),
  };
}
