// A fleet of simulated engines in virtual time, behind the same transport port as engines over HTTP. Its engines reach each
// other through a directory in memory.
import type { EngineExchange, EngineRequest, EngineSink, EngineTransport } from '../../engines/index.ts';
import type { KvEvent } from '../../events/index.ts';
import type { BlockHasher } from '../../kv/index.ts';
import { PointsmanError } from '../../plugin/index.ts';
import { createSimulatedEngine } from '../core/create-engine.ts';
import { type EventFaultSettings, EventFaults, eventFaultRng } from '../core/event-faults.ts';
import { EventHistory } from '../core/event-history.ts';
import type {
  EngineRestart,
  FetchAnswer,
  PeerDirectory,
  SimulatedEngine,
  SimulatedEngineSettings,
} from '../types.ts';
import { VirtualEngine, virtualEndpoint } from './virtual-engine.ts';
import {
  type EventEncoder,
  type VirtualEventLink,
  VirtualEventStream,
  type VirtualReplayListener,
} from './virtual-event-stream.ts';
import type { VirtualTime } from './virtual-time.ts';

/** What a fleet is built from. */
export interface VirtualFleetOptions {
  readonly time: VirtualTime;
  readonly hasher: BlockHasher;
  readonly encode: EventEncoder;
  /** One entry per worker; each is one rank, rank 0. */
  readonly engines: readonly SimulatedEngineSettings[];
  /** Event batches each engine keeps for `replayEvents`; default 0, since they hold every prompt's tokens. */
  readonly eventHistory?: number;
  /** What goes wrong with live event messages; default nothing. */
  readonly eventFaults?: EventFaultSettings | null;
  /** Seed of the faults; default 0. */
  readonly eventFaultSeed?: number;
  /** Engines that die and come back empty. */
  readonly restarts?: readonly EngineRestart[];
  /** Time of a replay's question, and of its answer, ms; default 1. */
  readonly eventReplayLatencyMs?: number;
  /** Sees what every engine publishes, when it does, whatever becomes of it on its way. */
  readonly watchEvents?: (events: readonly KvEvent[]) => void;
}

/** One worker of the fleet, as a router is told about it. */
export interface VirtualWorker {
  /** 1, 2, …. */
  readonly id: bigint;
  readonly url: string;
  /** Where peers ask it for blocks; null when it does not execute `kv.fetch`. */
  readonly sourceControlEndpoint: string | null;
  /** Where engines that decode ask it for computed prompts. */
  readonly address: { readonly host: string; readonly port: number };
  readonly settings: SimulatedEngineSettings;
}

const HOST = 'virtual';

/** Engines, their transport and their peers. */
export class VirtualFleet implements EngineTransport {
  readonly workers: readonly VirtualWorker[];
  readonly #time: VirtualTime;
  readonly #replayLatencyMs: number;
  readonly #engines: VirtualEngine[] = [];
  readonly #byEndpoint = new Map<string, VirtualEngine>();
  /** Hears of rate changes, by grant key. */
  readonly #rateListeners = new Map<string, (gbps: number) => void>();

  constructor(options: VirtualFleetOptions) {
    const { eventFaults = null, eventHistory = 0, restarts = [] } = options;
    this.#time = options.time;
    this.#replayLatencyMs = options.eventReplayLatencyMs ?? 1;
    this.workers = options.engines.map((settings, index) => ({
      id: BigInt(index + 1),
      url: `virtual:${index + 1}`,
      sourceControlEndpoint:
        settings.actions === null || settings.actions.includes('kv.fetch@1.0')
          ? `virtual:${index + 1}`
          : null,
      address: { host: HOST, port: index + 1 },
      settings,
    }));
    for (const [index, settings] of options.engines.entries()) {
      const events = new VirtualEventStream({
        time: options.time,
        rank: 0,
        encode: options.encode,
        watch: options.watchEvents ?? null,
        history: eventHistory === 0 ? null : new EventHistory(eventHistory),
        faults:
          eventFaults && new EventFaults(eventFaults, eventFaultRng(options.eventFaultSeed ?? 0, index)),
      });
      let run = 0;
      const engineId = (): string => `${HOST}-${index + 1}.${run}`;
      const machine = (): SimulatedEngine => {
        run += 1;
        return createSimulatedEngine(settings, {
          hasher: options.hasher,
          engineId: engineId(),
          peers: this.#directoryOf(index, run),
          announceRate: (key, gbps) => this.#rateListeners.get(key)?.(gbps),
        });
      };
      const engine = new VirtualEngine(options.time, machine, events, {
        settings,
        host: HOST,
        port: index + 1,
        engineId,
      });
      this.#engines.push(engine);
      this.#byEndpoint.set(virtualEndpoint(HOST, index + 1), engine);
    }
    for (const { atMs, worker } of restarts) {
      const engine = this.engine(BigInt(worker));
      this.#time.plan(atMs, 'timer', () => engine.restart());
    }
  }

  /** The engine of a worker id. @throws PM_SIM_WORKER when the fleet has no such worker. */
  engine(workerId: bigint): VirtualEngine {
    const engine = this.#engines[Number(workerId) - 1];
    if (engine !== undefined) return engine;
    throw new PointsmanError(
      'PM_SIM_WORKER',
      `the simulated fleet has workers 1 to ${this.#engines.length}, not ${workerId}`,
    );
  }

  /** Sends the events of a worker to `link`; null cuts the stream. @throws PM_SIM_WORKER */
  connectEvents(workerId: bigint, link: VirtualEventLink | null): void {
    this.engine(workerId).events.connect(link);
  }

  /**
   * Asks a worker for every kept batch from `start` on; what is no longer kept is left out, and nothing is kept by default.
   * Returns a function that ends it early. @throws PM_SIM_WORKER
   */
  replayEvents(workerId: bigint, start: number, listener: VirtualReplayListener): () => void {
    return this.engine(workerId).events.replay(start, this.#replayLatencyMs, listener);
  }

  dispatch(request: EngineRequest, sink: EngineSink): EngineExchange {
    return this.engine(request.worker.spec.id).dispatch(request, sink);
  }

  close(): void {
    for (const engine of this.#engines) engine.dropAll();
  }

  /** How the engine at `index` asks the others: a call, whose answer arrives as a message of its own at the same moment. */
  #directoryOf(index: number, run: number): PeerDirectory {
    const keyOf = (id: number): string => `${index}.${run}/${id}`;
    const poke = (): void => this.#engines[index]!.reschedule();
    /** Claims under way; what ends one must not overtake it. */
    const claims = new Set<string>();
    return {
      reserve: (endpoint, request, answered, rateChanged) => {
        const key = keyOf(request.id);
        this.#time.plan(this.#time.now(), 'message', () => {
          const source = this.#byEndpoint.get(endpoint);
          if (rateChanged) {
            this.#rateListeners.set(key, (gbps) => {
              rateChanged(gbps);
              poke();
            });
          }
          answered(
            source === undefined
              ? { error: 'unreachable' }
              : source.grantFetch({
                  key,
                  from: request.from,
                  blockHashes: request.blockHashes,
                  deadlineMs: request.deadlineMs,
                }),
          );
          poke();
        });
      },
      claim: (endpoint, { id, ...request }, answered, rateChanged) => {
        const key = keyOf(id);
        claims.add(key);
        this.#time.plan(this.#time.now(), 'message', () => {
          const source = this.#byEndpoint.get(endpoint);
          const heard = (answer: FetchAnswer): void => {
            answered(answer);
            poke();
          };
          this.#rateListeners.set(key, (gbps) => {
            rateChanged(gbps);
            poke();
          });
          if (source === undefined) heard({ error: 'unreachable' });
          else source.claimHandoff({ ...request, key }, heard);
        });
      },
      drop: (endpoint, handoff) => this.#byEndpoint.get(endpoint)?.dropHandoff(handoff),
      release: (endpoint, id, how) => {
        const key = keyOf(id);
        const release = (): void => {
          this.#rateListeners.delete(key);
          this.#byEndpoint.get(endpoint)?.releaseFetch(key, how);
        };
        if (claims.delete(key)) this.#time.plan(this.#time.now(), 'message', release);
        else release();
      },
    };
  }
}
