// Values that several tests of the HTTP road start from.
import { defaultConfig, type ModelConfig, NO_THRESHOLDS, type RouterConfig } from '../src/config/index.ts';
import type { EngineRequest } from '../src/engines/index.ts';
import type { Worker, WorkerSpec } from '../src/fleet/index.ts';
import type { ResponseSink, Road, RoadRequest, RoadTicket } from '../src/road/index.ts';

/** A ready worker of dialect `sim` with one rank. */
export function workerFixture(spec: Partial<WorkerSpec> = {}): Worker {
  return {
    spec: {
      id: 1n,
      model: 'tiny',
      url: 'http://127.0.0.1:1',
      dialect: 'sim',
      role: 'aggregated',
      ranks: { first: 0, count: 1 },
      kvEvents: new Map(),
      maxNumBatchedTokens: null,
      totalKvBlocks: null,
      taints: [],
      topology: {},
      ...spec,
    },
    state: 'ready',
    capabilities: null,
    taints: spec.taints ?? [],
    slots: [0],
  };
}

/** A completion request with exact tokens, not streaming. */
export function engineRequestFixture(over: Partial<EngineRequest> = {}): EngineRequest {
  return {
    requestId: 'req-1',
    partition: { model: 'tiny', routingGroup: 'default' },
    role: 'aggregated',
    worker: workerFixture(),
    rank: 0,
    servedAs: 'tiny-sim',
    api: 'completions',
    body: { model: 'tiny', prompt: 'hello', max_tokens: 4 },
    stream: false,
    tokens: Uint32Array.of(1, 4294967295),
    maxOutputTokens: 16,
    session: null,
    hint: null,
    ...over,
  };
}

/** A configuration with one model `tiny` (alias `default`), open to everyone, trusting nobody. */
export function routerConfigFixture(over: Partial<RouterConfig> = {}): RouterConfig {
  const model: ModelConfig = {
    name: 'tiny',
    servedAs: 'tiny-sim',
    aliases: ['default'],
    blockSize: 16,
    tokens: { source: 'estimate' },
    routingGroup: 'default',
  };
  return {
    listen: { host: '127.0.0.1', port: 0 },
    admin: { host: '127.0.0.1', port: 0, token: null },
    auth: null,
    limits: LIMITS,
    models: new Map([['tiny', model]]),
    workers: [],
    router: ROUTER,
    parity: defaultConfig().config.parity,
    snapshot: defaultConfig().config.snapshot,
    services: { indexer: null, selection: null },
    plugins: [],
    workerSelection: {},
    instances: [],
    requestClassifier: null,
    policyClasses: ['default'],
    queueProfile: null,
    containment: defaultConfig().config.containment,
    observe: { candidates: 64, engineLoad: false, logLevel: 'silent' },
    ...over,
  };
}

/** Small enough to be hit by a test. */
export const LIMITS: RouterConfig['limits'] = {
  bodyBytes: 4096,
  headerBytes: 4096,
  tokenCacheBytes: 1_048_576,
  promptTokens: 512,
  concurrentRequests: 8,
  firstWorkerWaitMs: 0,
  firstWorkerWaiting: 1024,
  retries: 2,
  retryBudget: 0.2,
  speculativePrefills: 16,
  indexBytes: 1 << 20,
  lineageBytes: 134_217_728,
  lineageSessions: 16_384,
  lineageTtlMs: 0,
  decisionBytes: 1 << 20,
  overloadStatus: 429,
  drainMs: 1000,
};

/** Router keys with their defaults. */
export const ROUTER: RouterConfig['router'] = {
  mode: 'kv',
  useKvEvents: true,
  kvEventIdleCheckMs: 30_000,
  overlapScoreCredit: 1,
  overlapScoreCreditDecay: 0,
  prefillLoadScale: 1,
  decodeActiveRequestWeight: 0,
  hostCacheHitWeight: 0.75,
  diskCacheHitWeight: 0.25,
  routerTemperature: 0,
  encoderCudaToCpuRatio: 8,
  routerTtlSeconds: 120,
  busyThresholds: NO_THRESHOLDS,
  queueThreshold: null,
  queuePolicy: 'fcfs',
  activeRequestExpirySeconds: 300,
  trackOutputBlocks: false,
  prefillLoadModel: 'none',
  engineLoad: 'observe',
  timingProfile: [],
  seed: 1,
  enableSessionPrefixIndex: true,
  sessionAffinity: { mode: 'off', ttlMs: 300_000, groupsSubagents: true, maxSessions: 65_536 },
  trustIncomingHintsFrom: [],
  trustRoutingFieldsFrom: [],
  disaggregation: { decodeFallback: false, conditional: null },
  agents: { hints: 'trusted', forwardPriority: true, sessionBodyFields: [], keylessSessions: false },
};

/** A request that reached a {@link ScriptedRoad}. */
export interface Arrival {
  readonly request: RoadRequest;
  readonly sink: ResponseSink;
  aborts: number;
  paused: boolean;
}

/** A road in memory: requests wait until the test answers them through their sink. */
export class ScriptedRoad implements Road {
  readonly arrivals: Arrival[] = [];
  /** Called at each arrival, before `arrive` returns. */
  onArrival: (arrival: Arrival) => void = () => {};
  #waiting: ((arrival: Arrival) => void)[] = [];

  arrive(request: RoadRequest, sink: ResponseSink): RoadTicket {
    const arrival: Arrival = { request, sink, aborts: 0, paused: false };
    this.arrivals.push(arrival);
    this.onArrival(arrival);
    for (const tell of this.#waiting.splice(0)) tell(arrival);
    return {
      requestId: request.requestId,
      abort: () => {
        arrival.aborts += 1;
      },
      pause: () => {
        arrival.paused = true;
      },
      resume: () => {
        arrival.paused = false;
      },
    };
  }

  /** The next arrival from now on. */
  next(): Promise<Arrival> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  workerGone(): void {}

  hintOutcome(): void {}

  unsettled(): boolean {
    return false;
  }

  expireBookings(): number {
    return Number.POSITIVE_INFINITY;
  }

  setQueues(): void {}

  close(): void {}

  activeBookings(): number {
    return 0;
  }
}
