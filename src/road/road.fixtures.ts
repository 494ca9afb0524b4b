// A road over real parts for tests: fleet, prefix index, hasher, host runtime and scheduler as in a router; only the engines are
// a script that the test plays.
import { expect } from 'vitest';
import { givenRequest } from '../../tests/support/road-request.ts';
import type { SessionAffinitySettings } from '../config/index.ts';
import type { EngineReport } from '../engines/index.ts';
import { BlockSizes, Fleet, type WorkerCapabilities, WorkerHealth, type WorkerSpec } from '../fleet/index.ts';
import {
  createSoloClassifier,
  createSoloRuntime,
  type RoleRuntime,
  type SoloClassifierOptions,
  type SoloOptions,
} from '../host/index.ts';
import { blockHashSeed, createBlockHasher, createPrefixIndex, type Tier } from '../kv/index.ts';
import { type DecisionRecord, DecisionRing, type Metrics, NO_METRICS } from '../observe/index.ts';
import {
  defineWorkerSelectionPolicy,
  linearCost,
  ManualClock,
  NO_LOG,
  type PointsmanError,
  seededRng,
  type WorkerRank,
} from '../plugin/index.ts';
import { DefaultChoice, Scheduler, SessionAffinity } from '../scheduling/index.ts';
import { createRoad } from './road.ts';
import type { RoadDeps } from './road-deps.ts';
import { ScriptedTransport } from './scripted-transport.fixtures.ts';
import type { ResponseSink, RoadRequest } from './types.ts';

export type { Dispatched } from './scripted-transport.fixtures.ts';

export const BLOCK = 16;
export const PARTITION = { model: 'tiny', routingGroup: 'default' };
export const REPORT: EngineReport = {
  promptTokens: 64,
  cachedTokens: 32,
  outputTokens: 3,
  finishReason: 'stop',
  source: 'usage',
};

const DEFAULT_COST = defineWorkerSelectionPolicy({
  type: 'default-cost',
  create: () => ({ cost: linearCost() }),
});

/** A door that writes down what it hears. */
export class RecordingSink implements ResponseSink {
  readonly heard: string[] = [];
  decisionId = '';
  error: PointsmanError | null = null;
  /** Throws from the call of this name. */
  failOn: string | null = null;
  /** Runs at every call, after it was written down. */
  also: ((call: string) => void) | null = null;

  booked(chosen: WorkerRank, decisionId: string): void {
    this.decisionId = decisionId;
    this.#hear('booked', `${chosen.workerId}/${chosen.rank}`);
  }
  head(status: number): void {
    this.#hear('head', String(status));
  }
  data(bytes: Uint8Array): void {
    this.#hear('data', String(bytes.length));
  }
  tokens(count: number): void {
    this.#hear('tokens', String(count));
  }
  finished(report: EngineReport): void {
    this.#hear('finished', String(report.finishReason));
  }
  failed(error: PointsmanError, afterHead: boolean): void {
    this.error = error;
    this.#hear('failed', `${error.code} ${afterHead ? 'after' : 'before'} head`);
  }

  #hear(call: string, what: string): void {
    this.heard.push(`${call} ${what}`);
    this.also?.(call);
    if (this.failOn === call) throw new Error('the door is broken');
  }
}

/** A worker that takes hints, unless told otherwise. */
export function workerSpec(id: bigint, changes: Partial<WorkerSpec> = {}): WorkerSpec {
  return {
    id,
    model: 'tiny',
    url: `http://127.0.0.1:${9000 + Number(id)}`,
    dialect: 'sim',
    role: 'aggregated',
    ranks: { first: 0, count: 1 },
    kvEvents: new Map(),
    maxNumBatchedTokens: null,
    totalKvBlocks: null,
    taints: [],
    topology: {},
    ...changes,
  };
}

export function capabilities(id: bigint): WorkerCapabilities {
  return {
    epoch: 'e1',
    model: 'tiny-sim',
    workerType: 'aggregated',
    blockSize: BLOCK,
    hashScheme: 'sim',
    reportsOutcomes: true,
    ranks: new Map([
      [0, { routerHint: true, actions: null, sourceControlEndpoint: `tcp://127.0.0.1:${7000 + Number(id)}` }],
    ]),
  };
}

/** `count` token ids of a prompt that is equal to others of the same `seed` as far as both go. */
export function prompt(seed: number, count: number): Uint32Array {
  return Uint32Array.from({ length: count }, (_, index) => seed * 100_000 + index);
}

/** Options of {@link testRoad}. */
export interface TestRoadOptions
  extends Partial<
    Pick<
      RoadDeps,
      | 'concurrentRequests'
      | 'queues'
      | 'firstWorkerHold'
      | 'index'
      | 'keyless'
      | 'decisions'
      | 'metrics'
      | 'log'
      | 'bookingExpiryMs'
      | 'retries'
      | 'wallMicros'
    >
  > {
  readonly workers?: readonly WorkerSpec[];
  readonly tracksOutputBlocks?: boolean;
  readonly selection?: SoloOptions['selection'];
  readonly hints?: SoloOptions['hints'];
  readonly onCommitFailure?: 'degrade' | 'release';
  readonly blockSize?: number | null;
  readonly classifier?: Pick<SoloClassifierOptions, 'definition' | 'parameters' | 'policyClasses' | 'guards'>;
  /** Default: a minute. */
  readonly maxWaitMs?: number;
  readonly metrics?: Metrics;
  readonly clock?: ManualClock;
  /** Absent = sessions are not bound. */
  readonly affinity?: Partial<SessionAffinitySettings>;
  /** The runtime of the one role; default: one made of the options above. */
  readonly runtime?: (parts: { readonly fleet: Fleet; readonly clock: ManualClock }) => Promise<RoleRuntime>;
}

/** Builds the road. */
export async function testRoad(options: TestRoadOptions = {}) {
  const clock = options.clock ?? new ManualClock(1000);
  const fleet = new Fleet();
  const hasher = createBlockHasher();
  const index = options.index === undefined ? createPrefixIndex({ hasher }) : options.index;
  const transport = new ScriptedTransport();
  const health = new WorkerHealth(fleet);
  const cost = linearCost();
  const scheduler = new Scheduler({
    fleet,
    fallback: new DefaultChoice(cost, seededRng(7)),
    tracksOutputBlocks: options.tracksOutputBlocks ?? false,
  });
  const decisions =
    options.decisions === undefined
      ? new DecisionRing({
          bytes: 1e6,
          candidates: 64,
          hashId: () => 'cafecafe',
          startMs: 0,
          metrics: NO_METRICS,
        })
      : options.decisions;
  const affinity = new SessionAffinity(
    { clock, metrics: options.metrics ?? NO_METRICS },
    { mode: 'off', ttlMs: 60_000, groupsSubagents: true, maxSessions: 100, ...options.affinity },
  );
  let held = 0;
  const hold = {
    retain: () => {
      held += 1;
    },
    release: () => {
      held -= 1;
    },
  };
  const unheld = await (options.runtime?.({ fleet, clock }) ??
    createSoloRuntime({
      selection: options.selection ?? { definition: DEFAULT_COST },
      ...(options.hints === undefined ? {} : { hints: options.hints }),
      onCommitFailure: options.onCommitFailure ?? 'degrade',
      partition: PARTITION,
      role: 'aggregated',
      blockSize: BLOCK,
      clock,
      seed: 7,
      log: NO_LOG,
      fleet,
    }));
  const runtime = { ...unheld, hold };
  const configured = options.blockSize === undefined ? BLOCK : options.blockSize;
  const blockSizes = new BlockSizes(fleet, () => configured);
  const classifiers =
    options.classifier === undefined
      ? null
      : await createSoloClassifier({
          ...options.classifier,
          partition: PARTITION,
          blockSize: BLOCK,
          maxWaitMs: options.maxWaitMs ?? 60_000,
          clock,
          seed: 7,
          log: NO_LOG,
          fleet,
          ...(options.metrics === undefined ? {} : { metrics: options.metrics }),
        });
  const road = createRoad({
    ...(classifiers === null ? {} : { classifiers }),
    fleet,
    scheduler,
    blockSizes,
    index,
    hasher,
    blockHashSeed,
    runtimeFor: () => runtime,
    transportFor: () => transport,
    health,
    decisions,
    mode: 'kv',
    affinity,
    concurrentRequests: options.concurrentRequests ?? 100,
    ...(options.firstWorkerHold === undefined ? {} : { firstWorkerHold: options.firstWorkerHold }),
    ...(options.queues === undefined ? {} : { queues: options.queues }),
    keyless: options.keyless ?? null,
    clock,
    metrics: options.metrics ?? NO_METRICS,
    log: options.log ?? NO_LOG,
    ...(options.retries === undefined ? {} : { retries: options.retries }),
    ...(options.bookingExpiryMs === undefined ? {} : { bookingExpiryMs: options.bookingExpiryMs }),
    wallMicros: options.wallMicros ?? (() => 0),
  });
  for (const spec of options.workers ?? [workerSpec(1n), workerSpec(2n)]) {
    const worker = fleet.add(spec, capabilities(spec.id));
    for (const slot of worker.slots) index?.bindOwner(slot, spec.id);
  }
  let arrivals = 0;
  const arrive = (changes: Partial<RoadRequest> = {}, sink = new RecordingSink()) => {
    arrivals += 1;
    const ticket = road.arrive(roadRequest(`r${arrivals}`, changes), sink);
    return { ticket, sink, record: (): DecisionRecord | null => decisions?.get(sink.decisionId) ?? null };
  };
  /** Lets a worker announce the blocks of a prompt under hashes of its own. */
  const cache = (id: bigint, tokens: Uint32Array, tier: Tier = 'device'): void => {
    const { local, blocks } = hasher.hashPrompt(tokens, BLOCK, blockHashSeed({}));
    const external = Uint32Array.from(local, (half) => (half ^ 0x5a5a5a5a) >>> 0);
    expect(index?.store(fleet.slotOf(id, 0), tier, null, external, local)).toBe('stored');
    expect(blocks).toBeGreaterThan(0);
  };
  /** Every load column is exactly zero and nothing is left behind. */
  const expectIdle = (): void => {
    expect(road.activeBookings()).toBe(0);
    const { loads } = scheduler;
    for (const column of [loads.activePrefillTokens, loads.activeDecodeBlocks, loads.activeRequests]) {
      expect(column.every((value) => value === 0)).toBe(true);
    }
    expect(loads.prefixRuns).toBe(0);
    expect(held).toBe(0);
  };
  return {
    clock,
    fleet,
    index,
    transport,
    health,
    scheduler,
    affinity,
    decisions,
    blockSizes,
    road,
    arrive,
    cache,
    expectIdle,
    /** How many bookings hold the policies that made them. */
    held: () => held,
  };
}

/** A request with everything it needs. */
export function roadRequest(requestId: string, changes: Partial<RoadRequest>): RoadRequest {
  return givenRequest(requestId, prompt(1, 64), {
    door: 'gateway',
    partition: PARTITION,
    servedAs: 'tiny-sim',
    body: {},
    tokensSource: 'local',
    maxOutputTokens: 16,
    ...changes,
  });
}
