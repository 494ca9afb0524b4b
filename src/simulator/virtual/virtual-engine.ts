// One simulated rank in virtual time, seen as a real engine is seen: requests come in through the transport port, answers go to
// the engine sink, KV events go out as encoded batches.
import type { EngineExchange, EngineRequest, EngineSink } from '../../engines/index.ts';
import type { KvEvent, KvEventBatch, KvEventSink } from '../../events/index.ts';
import type { OwnerSlot } from '../../kv/index.ts';
import type { EventHistory } from '../core/event-history.ts';
import type {
  FetchAnswer,
  FetchGrantRequest,
  SimulatedEngine,
  SimulatedEngineStats,
  SimulatedHintOutcome,
  SimulatorSink,
} from '../types.ts';
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

interface Exchange {
  readonly sink: EngineSink;
  readonly promptTokens: number;
}

/** Drives one engine and translates between its machine and the router's ports. */
export class VirtualEngine implements SimulatorSink {
  readonly #time: VirtualTime;
  readonly #engine: SimulatedEngine;
  readonly #rank: number;
  readonly #encode: EventEncoder;
  /** null = nothing is kept, and batches nobody hears need not be encoded. */
  readonly #history: EventHistory | null;
  readonly #exchanges = new Map<string, Exchange>();
  #link: VirtualEventLink | null = null;
  #sequence = 0;
  #plannedAt: number | null = null;
  #cancelPlanned: () => void = () => undefined;
  #advancing = false;

  constructor(
    time: VirtualTime,
    engine: SimulatedEngine,
    rank: number,
    encode: EventEncoder,
    history: EventHistory | null,
  ) {
    this.#time = time;
    this.#engine = engine;
    this.#rank = rank;
    this.#encode = encode;
    this.#history = history;
  }

  /** Batches published so far. */
  get batches(): number {
    return this.#sequence;
  }

  /** Publishes to `link` from now on; null cuts the stream. */
  connect(link: VirtualEventLink | null): void {
    this.#link = link;
  }

  /**
   * Asks for every kept batch from `start` on, as over the wire: the question and each answer take `latencyMs`, live batches
   * may arrive in between. Returns a function after which nothing more is heard.
   */
  replayEvents(start: number, latencyMs: number, listener: VirtualReplayListener): () => void {
    const deliver = (): void => {
      const batches = this.#history?.since(start) ?? [];
      cancel = this.#time.plan(this.#time.now() + latencyMs, 'message', () => {
        let cancelled = false;
        cancel = () => {
          cancelled = true;
        };
        for (const { payload, sequence } of batches) {
          if (!cancelled) listener.batch(sequence, payload);
        }
        if (!cancelled) listener.ended();
      });
    };
    let cancel = this.#time.plan(this.#time.now() + latencyMs, 'message', deliver);
    return () => cancel();
  }

  dispatch(request: EngineRequest, sink: EngineSink): EngineExchange {
    const tokens = request.tokens ?? new Uint32Array(0);
    // Attempts of one request may meet on one engine; the machine needs ids of its own.
    const id = this.#exchanges.has(request.requestId)
      ? `${request.requestId}#${this.#time.now()}#${this.#exchanges.size}`
      : request.requestId;
    this.#exchanges.set(id, { sink, promptTokens: tokens.length });
    this.#engine.submit(
      {
        id,
        tokens,
        outputTokens: request.maxOutputTokens,
        sessionId: request.session?.sessionId ?? null,
        hint: request.hint,
      },
      this.#time.now(),
    );
    this.reschedule();
    return {
      abort: () => {
        if (!this.#exchanges.delete(id)) return;
        this.#engine.abort(id, this.#time.now());
        this.reschedule();
      },
      pause: () => undefined,
      resume: () => undefined,
    };
  }

  /** Ends every exchange without a word to its sink. */
  dropAll(): void {
    for (const id of this.#exchanges.keys()) this.#engine.abort(id, this.#time.now());
    this.#exchanges.clear();
    this.reschedule();
  }

  grantFetch(request: FetchGrantRequest): FetchAnswer {
    const answer = this.#engine.grantFetch(request, this.#time.now());
    this.reschedule();
    return answer;
  }

  releaseFetch(key: string): void {
    this.#engine.releaseFetch(key, this.#time.now());
    this.reschedule();
  }

  stats(): SimulatedEngineStats {
    return this.#engine.stats();
  }

  /** Plans the machine's next event; called after every call into it. */
  reschedule(): void {
    if (this.#advancing) return;
    const next = this.#engine.nextEventAt();
    if (next === this.#plannedAt) return;
    this.#cancelPlanned();
    this.#plannedAt = next;
    if (next === null) {
      this.#cancelPlanned = () => undefined;
      return;
    }
    this.#cancelPlanned = this.#time.plan(next, 'engine', () => {
      this.#plannedAt = null;
      this.#advancing = true;
      this.#engine.advance(this.#time.now(), this);
      this.#advancing = false;
      this.reschedule();
    });
  }

  admitted(id: string, _cachedTokens: number, outcomes: readonly SimulatedHintOutcome[]): void {
    this.#exchanges.get(id)?.sink.head(
      200,
      {},
      outcomes.map((outcome) => ({
        actionId: outcome.action_id,
        outcome: outcome.outcome,
        reason: outcome.reason ?? null,
        blocksAsked: outcome.blocks_asked ?? null,
        blocksDone: outcome.blocks_done ?? null,
        bytes: outcome.bytes ?? null,
      })),
    );
  }

  chunk(id: string): void {
    this.#exchanges.get(id)?.sink.tokens(1);
  }

  finished(
    id: string,
    result: { readonly cachedTokens: number; readonly outputTokens: number; readonly rejected: boolean },
  ): void {
    const exchange = this.#exchanges.get(id);
    if (exchange === undefined) return;
    this.#exchanges.delete(id);
    if (result.rejected) {
      // As an engine over HTTP: the request is refused with a status, the connection is fine.
      exchange.sink.head(400, {}, []);
      exchange.sink.finished({
        promptTokens: null,
        cachedTokens: null,
        outputTokens: null,
        finishReason: 'rejected',
        source: 'none',
      });
      return;
    }
    exchange.sink.finished({
      promptTokens: exchange.promptTokens,
      cachedTokens: result.cachedTokens,
      outputTokens: result.outputTokens,
      finishReason: 'length',
      source: 'usage',
    });
  }

  kvEvents(events: readonly KvEvent[], at: number): void {
    const sequence = this.#sequence;
    this.#sequence += 1;
    if (this.#link === null && this.#history === null) return;
    const batch: KvEventBatch = { timestamp: at / 1000, events, rank: this.#rank };
    const bytes = this.#history !== null || !this.#link?.decoded ? this.#encode(batch) : null;
    if (bytes !== null) this.#history?.append(bytes);
    if (this.#link === null) return;
    if (this.#link.decoded) this.#link.decoded(this.#link.owner, sequence, batch);
    else if (bytes !== null) this.#link.sink.onBatch(this.#link.owner, sequence, bytes);
  }

  transfer(): void {}
}
