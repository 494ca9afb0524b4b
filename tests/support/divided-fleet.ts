// A router over prefill and decode engines in virtual time, with everything in reach that a test wants to break or count.
import type { ComposedRouter } from '../../src/cli/compose-router.ts';
import { composeReplayRouter } from '../../src/cli/replay-router.ts';
import { defaultConfig, type LoadedConfig, parseConfig, type WorkerConfig } from '../../src/config/index.ts';
import type { EngineReport, EngineTransport } from '../../src/engines/index.ts';
import { encodeEventBatch } from '../../src/events/index.ts';
import { createBlockHasher } from '../../src/kv/index.ts';
import type { DecisionRecord } from '../../src/observe/index.ts';
import type { PointsmanError } from '../../src/plugin/index.ts';
import type { ReplayRouter } from '../../src/replay/index.ts';
import type { ResponseSink, RoadRequest, RoadTicket } from '../../src/road/index.ts';
import {
  DEFAULT_ENGINE_SETTINGS,
  type HandoffKind,
  type SimulatedEngineSettings,
  VirtualFleet,
  VirtualTime,
  type VirtualWorker,
} from '../../src/simulator/index.ts';
import { givenRequest } from './road-request.ts';

/** What a fleet is made of. */
export interface DividedFleetOptions {
  readonly prefill: number;
  readonly decode: number;
  readonly handoff?: HandoffKind;
  readonly engine?: Partial<SimulatedEngineSettings>;
  /** The configuration, beside model and workers. */
  readonly yaml?: string;
  /** Stands between the router and the engines. */
  readonly transport?: (engines: EngineTransport) => EngineTransport;
  /** Changes what the router is told of a worker. */
  readonly worker?: (worker: VirtualWorker) => Partial<WorkerConfig>;
  readonly definitions?: readonly object[];
}

/** What was heard of one request. */
export class HeardLegs implements ResponseSink {
  ticket: RoadTicket | null = null;
  readonly arrivedAt: number;
  headAt: number | null = null;
  readonly tokensAt: number[] = [];
  report: EngineReport | null = null;
  error: PointsmanError | null = null;
  /** How often it ended. */
  ends = 0;
  endedAt: number | null = null;
  readonly #time: VirtualTime;

  constructor(time: VirtualTime) {
    this.#time = time;
    this.arrivedAt = time.now();
  }

  booked(): void {}
  head(): void {
    this.headAt = this.#time.now();
  }
  data(): void {}
  tokens(): void {
    this.tokensAt.push(this.#time.now());
  }
  finished(report: EngineReport): void {
    this.report = report;
    this.#end();
  }
  failed(error: PointsmanError): void {
    this.error = error;
    this.#end();
  }
  waits(): boolean {
    return true;
  }

  #end(): void {
    this.ends += 1;
    this.endedAt = this.#time.now();
  }
}

/** A fleet under test. */
export interface DividedFleet {
  readonly time: VirtualTime;
  readonly fleet: VirtualFleet;
  readonly router: ReplayRouter;
  readonly core: ComposedRouter;
  /** In the order in which they were made. */
  readonly decisions: DecisionRecord[];
  send(id: string, tokens: Uint32Array, changes?: Partial<RoadRequest>): HeardLegs;
  /** Steps until a condition holds. */
  until(holds: () => boolean): void;
  /** What is held anywhere: bookings, blocks in use, handoffs, requests. All 0 when nothing is. */
  held(): { readonly bookings: number; readonly blocks: number; readonly requests: number };
}

/** Prefill workers come first: their ids are 1 to `prefill`. */
export async function dividedFleet(options: DividedFleetOptions): Promise<DividedFleet> {
  const { decode, handoff = 'nixl', prefill } = options;
  const time = new VirtualTime();
  const fleet = new VirtualFleet({
    time,
    hasher: createBlockHasher(),
    encode: encodeEventBatch,
    engines: Array.from({ length: prefill + decode }, (_, index) => ({
      ...DEFAULT_ENGINE_SETTINGS,
      kvBlocks: 512,
      handoff,
      handoffTimeoutMs: 20_000,
      ...options.engine,
      role: options.engine?.role ?? (index < prefill ? 'prefill' : 'decode'),
    })),
  });
  const loaded: Pick<LoadedConfig, 'config' | 'source'> =
    options.yaml === undefined ? defaultConfig() : parseConfig(options.yaml, 'router.yaml');
  const cores: ComposedRouter[] = [];
  const decisions: DecisionRecord[] = [];
  const router = await composeReplayRouter(
    loaded,
    {
      choice: { kind: 'mode', mode: 'kv' },
      seed: 1,
      clock: time,
      transport: options.transport?.(fleet) ?? fleet,
      model: 'tiny',
      blockSize: DEFAULT_ENGINE_SETTINGS.blockSize,
      workers: fleet.workers,
    },
    {
      warn: () => undefined,
      ...(options.definitions && { definitions: options.definitions }),
      ...(options.worker && { worker: options.worker }),
      onComposed: (core) => cores.push(core),
      onDecision: (phase, record) => {
        if (phase === 'booked') decisions.push(record);
      },
    },
  );
  const [core] = cores;
  if (core === undefined) throw new Error('no router was composed');
  for (const { id } of fleet.workers) {
    const link = router.eventLink(id);
    if (link !== null) fleet.connectEvents(id, { owner: link.owner, sink: link.sink });
  }
  return {
    time,
    fleet,
    router,
    core,
    decisions,
    send(id, tokens, changes = {}) {
      const heard = new HeardLegs(time);
      heard.ticket = router.road.arrive(givenRequest(id, tokens, changes), heard);
      return heard;
    },
    until(holds) {
      while (!holds()) if (!time.step()) throw new Error('nothing is left to happen');
    },
    held() {
      let blocks = 0;
      let requests = 0;
      for (const { id } of fleet.workers) {
        const { activeBlocks, handoffs, parked, running, waiting } = fleet.engine(id).stats();
        blocks += activeBlocks;
        requests += handoffs + parked + running + waiting;
      }
      return { bookings: router.road.activeBookings(), blocks, requests };
    },
  };
}
