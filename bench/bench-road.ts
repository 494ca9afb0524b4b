// A road to measure: the whole router as it runs, except that the engines are a transport that answers when told. Shared by the
// benchmarks of the decision and of what it allocates.
import { SessionFeeds, type SessionFeedsOptions } from '../src/cli/session-feeds.ts';
import type { BusyThresholds } from '../src/config/index.ts';
import type { EngineExchange, EngineSink } from '../src/engines/index.ts';
import { BlockSizes, Fleet, type WorkerCapabilities, type WorkerSpec } from '../src/fleet/index.ts';
import {
  createSoloClassifier,
  createSoloRuntime,
  type RoleRuntime,
  type SoloClassifierOptions,
  type SoloOptions,
} from '../src/host/index.ts';
import {
  blockHashSeed,
  createBlockHasher,
  createPrefixIndex,
  type PrefixIndex,
  ROUTER_SEED,
} from '../src/kv/index.ts';
import { DecisionRing, NO_METRICS } from '../src/observe/index.ts';
import {
  defineWorkerSelectionPolicy,
  type KvHint,
  linearCost,
  ManualClock,
  NO_LOG,
  type SessionContext,
  seededRng,
} from '../src/plugin/index.ts';
import { createRoad, NO_CONSTRAINTS, type ResponseSink, type Road } from '../src/road/index.ts';
import { DefaultChoice, type PlacementConstraints, Scheduler } from '../src/scheduling/index.ts';
import { type Claim, ReservationTable } from '../src/services/selection/reservation-table.ts';

/** Tokens per block. */
export const BLOCK = 16;
/** Bookings held at any time: a decision frees the one made this many decisions before. */
export const HELD = 64;
/** The partition of all requests. */
export const PARTITION = { model: 'bench', routingGroup: 'default' };

/** What a host says whose policies ask for lineages. */
const KEPT: ReturnType<SessionFeedsOptions['host']['resolution']> = [
  {
    provisions: {
      index: 'yes',
      eventSubscription: 'yes',
      chainRetention: 'no',
      copyLocations: 'no',
      lineage: 'yes',
      residency: 'no',
      hintStage: 'yes',
    },
  },
];

/** The hasher of all roads. */
export const hasher = createBlockHasher();

/** What a road is asked to carry. */
export interface BenchRoadOptions {
  readonly prompts: readonly Uint32Array[];
  readonly workers: number;
  /** Leading blocks of each prompt that one worker holds. */
  readonly resident: number;
  /** Leading blocks of each prompt that every other worker holds; default 0. */
  readonly shared?: number;
  /** Whether decisions are recorded. */
  readonly records: boolean;
  /** Whether workers take hints and serve copies; default no. */
  readonly takesHints?: boolean;
  /** Default: the default cost. */
  readonly selection?: SoloOptions['selection'];
  /** Default: none. */
  readonly hints?: SoloOptions['hints'];
  /** Bookings held at any time; default {@link HELD}. 0 = a decision's own ends before it returns. */
  readonly held?: number;
  /** The worker that every request is pinned to; default none. */
  readonly pinnedTo?: bigint;
  /** Blocks that the `kv.fetch` of every dispatched request asks for, which is checked; default: hints are not looked at. */
  readonly fetches?: number;
  /** Busy thresholds of the model; default none, so that nobody looks. */
  readonly busyThresholds?: BusyThresholds;
  /** Whether each booking has a row among the selection service's reservations; default no. */
  readonly reserves?: boolean;
  /** Requests belong to so many sessions in turn; default: to none. */
  readonly sessions?: number;
  /** Whether lineages of sessions are kept; default no. */
  readonly lineage?: boolean;
  /** Default: none, so that nobody is asked. */
  readonly classifier?: SoloClassifierOptions['definition'];
}

/** A road with its index. */
export interface BenchRoad {
  readonly index: PrefixIndex;
  readonly fleet: Fleet;
  readonly runtime: RoleRuntime;
  /** Decides for one prompt, dispatches, and ends an older request. */
  decide(turn: number): void;
  /** Does what decisions left for later, such as what they say of sessions. */
  settle(): void;
}

/** Builds a road: `workers` workers, an index that holds the beginning of every prompt. */
export async function makeBenchRoad(options: BenchRoadOptions): Promise<BenchRoad> {
  const { prompts, workers, resident, shared = 0, records, takesHints = false, hints = [] } = options;
  const { fetches = null, held = HELD, pinnedTo } = options;
  const sessions =
    options.sessions === undefined
      ? null
      : Array.from({ length: options.sessions }, (_, nth) => ({ sessionId: `s${nth}`, agentHeaders: {} }));
  const reservations = options.reserves === true ? new ReservationTable<number>() : null;
  const constraints: PlacementConstraints =
    pinnedTo === undefined
      ? NO_CONSTRAINTS
      : { ...NO_CONSTRAINTS, pinnedWorker: { workerId: pinnedTo, rank: null } };
  const clock = new ManualClock();
  const fleet = new Fleet();
  const index = createPrefixIndex({ hasher });
  const cost = linearCost();
  const runtime = await createSoloRuntime({
    selection: options.selection ?? {
      definition: defineWorkerSelectionPolicy({ type: 'default-cost', create: () => ({ cost }) }),
    },
    hints,
    partition: PARTITION,
    role: 'aggregated',
    blockSize: BLOCK,
    clock,
    seed: 1,
    log: NO_LOG,
    fleet,
  });
  const { classifier } = options;
  const classifiers =
    classifier === undefined
      ? null
      : await createSoloClassifier({
          definition: classifier,
          partition: PARTITION,
          blockSize: BLOCK,
          maxWaitMs: 60_000,
          clock,
          seed: 1,
          log: NO_LOG,
          fleet,
        });
  const scheduler = new Scheduler({ fleet, fallback: new DefaultChoice(cost, seededRng(1)) });
  if (options.busyThresholds !== undefined) {
    scheduler.setBusyThresholds(new Map([[PARTITION.model, options.busyThresholds]]));
  }
  const engines: EngineSink[] = [];
  const exchange: EngineExchange = { abort() {}, pause() {}, resume() {} };
  const road = createRoad({
    ...(classifiers === null ? {} : { classifiers }),
    fleet,
    scheduler,
    blockSizes: new BlockSizes(fleet, () => BLOCK),
    index,
    hasher,
    blockHashSeed,
    runtimeFor: () => runtime,
    transportFor: () => ({
      dispatch(request, sink) {
        if (fetches !== null) checkFetch(request.hint, fetches);
        engines.push(sink);
        return exchange;
      },
      close() {},
    }),
    health: null,
    sessions:
      options.lineage === true
        ? new SessionFeeds({
            fleet,
            residency: index,
            host: { resolution: () => KEPT },
            limits: { lineageBytes: 2 ** 28, lineageSessions: 2 ** 16, lineageTtlMs: 0 },
            useKvEvents: true,
            clock,
            metrics: NO_METRICS,
          })
        : null,
    decisions: records
      ? new DecisionRing({
          bytes: 2 ** 24,
          candidates: 64,
          hashId: () => '00000000',
          startMs: 0,
          metrics: NO_METRICS,
        })
      : null,
    mode: 'kv',
    concurrentRequests: 1_000_000,
    clock,
    metrics: NO_METRICS,
    wallMicros: () => 0,
  });
  addWorkers(fleet, workers, takesHints);
  for (const [number, tokens] of prompts.entries()) {
    store(index, number % workers, tokens.subarray(0, resident * BLOCK));
    for (let slot = 0; shared > 0 && slot < workers; slot += 2) {
      if (slot !== number % workers) store(index, slot, tokens.subarray(0, shared * BLOCK));
    }
  }
  return {
    index,
    fleet,
    runtime,
    settle: () => clock.advanceTo(clock.now() + 1),
    decide: (turn) => {
      const id = `r${turn}`;
      const claim = reservations?.claim(id) ?? null;
      const session = sessions === null ? null : sessions[turn % sessions.length]!;
      arrive(road, prompts[turn % prompts.length]!, constraints, id, session);
      if (claim !== null) reserved(claim, turn);
      if (engines.length <= held) return;
      engines.shift()?.finished(DONE);
      reservations?.remove(`r${turn - held}`, turn - held);
    },
  };
}

/** @throws Error when the claim is over already. */
function reserved(claim: Claim<number>, turn: number): void {
  if (!claim.install(turn)) throw new Error('a reservation was lost');
}

/** What a worker says that takes any hint and serves copies. */
function advertisement(worker: number): WorkerCapabilities {
  const rank = { routerHint: true, actions: null, sourceControlEndpoint: `tcp://worker:${worker}` };
  return {
    epoch: '1',
    model: PARTITION.model,
    workerType: 'aggregated',
    blockSize: BLOCK,
    hashScheme: 'bench',
    reportsOutcomes: false,
    ranks: new Map([[0, rank]]),
  };
}

function addWorkers(fleet: Fleet, workers: number, takesHints: boolean): void {
  for (let worker = 1; worker <= workers; worker += 1) {
    const spec: WorkerSpec = {
      id: BigInt(worker),
      model: PARTITION.model,
      url: 'virtual:',
      dialect: 'sim',
      role: 'aggregated',
      ranks: { first: 0, count: 1 },
      kvEvents: new Map(),
      maxNumBatchedTokens: null,
      totalKvBlocks: null,
      taints: [],
      topology: {},
    };
    fleet.add(spec, takesHints ? advertisement(worker) : null);
  }
}

/** What an engine would have announced: these blocks under hashes of its own. */
function store(index: PrefixIndex, slot: number, tokens: Uint32Array): void {
  const { local, sequence } = hasher.hashPrompt(tokens, BLOCK, ROUTER_SEED);
  const external = sequence.map((word) => (word ^ 0x5bd1e995) >>> 0);
  index.store(slot, 'device', null, external, local);
}

const SINK: ResponseSink = {
  booked() {},
  head() {},
  data() {},
  tokens() {},
  finished() {},
  failed(error) {
    throw error;
  },
};
const DONE = {
  promptTokens: null,
  cachedTokens: 0,
  outputTokens: 1,
  finishReason: 'stop',
  source: 'usage',
} as const;

/** @throws Error when a hint is not one fetch of so many blocks. */
function checkFetch(hint: KvHint | null, blocks: number): void {
  const action = hint?.actions[0];
  const hashes = action?.payload.block_hashes;
  if (hint?.actions.length === 1 && action?.action_type === 'kv.fetch') {
    if ((hashes instanceof BigUint64Array || Array.isArray(hashes)) && hashes.length === blocks) return;
  }
  throw new Error(`a booking does not carry one kv.fetch with ${blocks} hashes`);
}

function arrive(
  road: Road,
  tokens: Uint32Array,
  constraints: PlacementConstraints,
  requestId: string,
  session: SessionContext | null,
): void {
  road.arrive(
    {
      requestId,
      door: 'replay',
      partition: PARTITION,
      role: 'aggregated',
      servedAs: 'bench',
      api: 'completions',
      body: null,
      stream: true,
      tokens,
      tokensSource: 'given',
      maxOutputTokens: 1,
      expectedOutputTokens: null,
      loraName: null,
      cacheSalt: null,
      session,
      constraints,
      incomingHint: null,
      tokenizeMicros: 0,
    },
    SINK,
  );
}
