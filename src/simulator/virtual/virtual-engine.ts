// One simulated rank in virtual time, seen as a real engine is seen: requests come in through the transport port, answers go to
// the engine sink, KV events go out as encoded batches.
import type { EngineExchange, EngineRequest, EngineSink } from '../../engines/index.ts';
import type { KvEvent } from '../../events/index.ts';
import type { HashPairs, Tier } from '../../kv/index.ts';
import { PointsmanError } from '../../plugin/index.ts';
import { handoffAnswer, readHandoff } from '../handoff-fields.ts';
import type {
  FetchAnswer,
  FetchGrantRequest,
  HandoffClaim,
  SimulatedEngine,
  SimulatedEngineSettings,
  SimulatedEngineStats,
  SimulatedHandoff,
  SimulatedHintOutcome,
  SimulatedResult,
  SimulatorSink,
} from '../types.ts';
import type { VirtualEventStream } from './virtual-event-stream.ts';
import type { RecurringEvent, VirtualTime } from './virtual-time.ts';

interface Exchange {
  readonly sink: EngineSink;
  readonly promptTokens: number;
  /** See `EngineRequest.prefilledCachedTokens`; null = absent there. */
  readonly cachedTokens: (() => number | null) | null;
}

/** Who an engine is to its peers. */
export interface VirtualAddress {
  readonly settings: SimulatedEngineSettings;
  readonly host: string;
  readonly port: number;
  /** Names its present run. */
  engineId(): string;
}

/** Control channel at an address of virtual engines. */
export function virtualEndpoint(host: string, port: number): string {
  return `${host}:${port}`;
}

/** Drives one engine and translates between its machine and the router's ports. */
export class VirtualEngine implements SimulatorSink {
  readonly events: VirtualEventStream;
  readonly #time: VirtualTime;
  readonly #machine: () => SimulatedEngine;
  readonly #address: VirtualAddress;
  #engine: SimulatedEngine;
  readonly #exchanges = new Map<string, Exchange>();
  #plannedAt: number | null = null;
  readonly #next: RecurringEvent;
  #advancing = false;

  /** @param machine makes the machine, at the start and at every restart. */
  constructor(
    time: VirtualTime,
    machine: () => SimulatedEngine,
    events: VirtualEventStream,
    address: VirtualAddress,
  ) {
    this.#time = time;
    this.#machine = machine;
    this.#address = address;
    this.#engine = machine();
    this.events = events;
    this.#next = time.recurring('engine', () => this.#advance());
  }

  dispatch(request: EngineRequest, sink: EngineSink): EngineExchange {
    const tokens = request.tokens ?? new Uint32Array(0);
    // Attempts of one request may meet on one engine; the machine needs ids of its own.
    const id = this.#exchanges.has(request.requestId)
      ? `${request.requestId}#${this.#time.now()}#${this.#exchanges.size}`
      : request.requestId;
    const exchange: Exchange = {
      sink,
      promptTokens: tokens.length,
      cachedTokens: request.prefilledCachedTokens ?? null,
    };
    this.#exchanges.set(id, exchange);
    try {
      this.#engine.submit(
        {
          id,
          tokens,
          outputTokens: request.maxOutputTokens,
          sessionId: request.session?.sessionId ?? null,
          hint: request.hint,
          handoff: this.#handoffOf(request, tokens.length),
        },
        this.#time.now(),
      );
    } catch (thrown) {
      this.#refuse(id, exchange, thrown);
    }
    this.reschedule();
    return {
      abort: () => {
        // After a restart the id may be another attempt's.
        if (this.#exchanges.get(id) !== exchange) return;
        this.#exchanges.delete(id);
        this.#engine.abort(id, this.#time.now());
        this.reschedule();
      },
      pause: () => undefined,
      resume: () => undefined,
    };
  }

  #handoffOf({ handoff, requestId }: EngineRequest, promptTokens: number): SimulatedHandoff | null {
    const { settings } = this.#address;
    const room = handoff?.shape === 'sglang' ? handoff : null;
    return readHandoff(
      {
        kvTransferParams: handoff?.shape === 'vllm' ? handoff.params : null,
        bootstrapHost: room?.host,
        bootstrapPort: room?.port,
        bootstrapRoom: room?.room,
        prefillRank: room?.prefillRank,
      },
      {
        role: settings.role,
        requestId,
        promptBlocks: Math.ceil(promptTokens / settings.blockSize),
        endpointOf: virtualEndpoint,
      },
    );
  }

  /** As over HTTP: what the engine cannot take is an answer, and it comes after `dispatch` has returned. */
  #refuse(id: string, exchange: Exchange, thrown: unknown): void {
    if (!(thrown instanceof PointsmanError)) throw thrown;
    this.#time.plan(this.#time.now(), 'message', () => {
      if (this.#exchanges.get(id) !== exchange) return;
      this.#exchanges.delete(id);
      exchange.sink.failed(
        new PointsmanError('PM_ENGINE_REFUSED', thrown.message, {
          details: { engine_status: thrown.status },
        }),
      );
    });
  }

  /** Ends every exchange without a word to its sink. */
  dropAll(): void {
    for (const id of this.#exchanges.keys()) this.#engine.abort(id, this.#time.now());
    this.#exchanges.clear();
    this.reschedule();
  }

  /**
   * The engine's process dies and a new one takes its place at once: its requests are lost, its pool and event history are
   * empty, and batches count from 0 again.
   */
  restart(): void {
    this.#engine.die(this.#time.now());
    this.#engine = this.#machine();
    this.events.restart();
    const lost = [...this.#exchanges.values()];
    this.#exchanges.clear();
    this.reschedule();
    for (const { sink } of lost) {
      sink.failed(new PointsmanError('PM_ENGINE_LOST', 'the simulated engine was restarted'));
    }
  }

  /** See `SimulatedEngine.residentBlocks`. */
  residentBlocks(tier: Tier): HashPairs {
    return this.#engine.residentBlocks(tier);
  }

  grantFetch(request: FetchGrantRequest): FetchAnswer {
    const answer = this.#engine.grantFetch(request, this.#time.now());
    this.reschedule();
    return answer;
  }

  releaseFetch(key: string, how: 'done' | 'cancel'): void {
    this.#engine.releaseFetch(key, this.#time.now(), how);
    this.reschedule();
  }

  claimHandoff(claim: HandoffClaim, answered: (answer: FetchAnswer) => void): void {
    this.#engine.claimHandoff(claim, this.#time.now(), answered);
    this.reschedule();
  }

  dropHandoff(handoff: string): void {
    this.#engine.dropHandoff(handoff, this.#time.now());
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
    this.#plannedAt = next;
    if (next === null) this.#next.cancel();
    else this.#next.plan(next);
  }

  #advance(): void {
    this.#plannedAt = null;
    this.#advancing = true;
    this.#engine.advance(this.#time.now(), this);
    this.#advancing = false;
    this.reschedule();
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
        ms: outcome.ms ?? null,
      })),
    );
  }

  chunk(id: string): void {
    this.#exchanges.get(id)?.sink.tokens(1);
  }

  finished(id: string, result: SimulatedResult): void {
    const exchange = this.#exchanges.get(id);
    if (exchange === undefined) return;
    this.#exchanges.delete(id);
    const { cachedTokens, promptTokens, sink } = exchange;
    if (result.failure !== undefined) {
      sink.failed(
        new PointsmanError('PM_ENGINE_FAILED', `the simulated engine's handoff failed: ${result.failure}`, {
          details: { engine_status: 503, reason: result.failure },
        }),
      );
      return;
    }
    if (result.rejected) {
      // As an engine over HTTP: the request is refused with a status, the connection is fine.
      sink.head(400, {}, []);
      sink.finished({
        promptTokens: null,
        cachedTokens: null,
        outputTokens: null,
        finishReason: 'rejected',
        source: 'none',
      });
      return;
    }
    const { engineId } = this.#address;
    sink.finished({
      promptTokens,
      cachedTokens: cachedTokens?.() ?? result.cachedTokens,
      outputTokens: result.outputTokens,
      finishReason: 'length',
      source: 'usage',
      ...(result.handoff && {
        handoff: handoffAnswer(result.handoff, engineId(), this.#address, promptTokens),
      }),
    });
  }

  kvEvents(events: readonly KvEvent[], at: number): void {
    this.events.publish(events, at);
  }

  transfer(): void {}
}
