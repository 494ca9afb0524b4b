// Puts the core of a router together: fleet, index, host, scheduling, road, record. It opens no socket and starts no timer; the
// commands add those (serve) or drive it in virtual time (replay).
import { randomBytes } from 'node:crypto';
import { type ConfigSource, queueSettingsOf, type RouterConfig } from '../config/index.ts';
import type { EngineTransport } from '../engines/index.ts';
import { countsCopies, type KvEventApplier } from '../events/index.ts';
import {
  BlockSizes,
  Fleet,
  parseCapabilities,
  type Worker,
  WorkerHealth,
  workerSpecOf,
} from '../fleet/index.ts';
import { createReloadableHost, type PluginHostOptions, type ReloadableHost } from '../host/index.ts';
import {
  ApproximateResidency,
  type BlockHasher,
  blockHashSeed,
  createBlockHasher,
  type FollowedIndex,
  type OwnerSlot,
  type U64,
} from '../kv/index.ts';
import { DecisionRing, type Metrics } from '../observe/index.ts';
import type { ParityMonitor } from '../parity/index.ts';
import { type Clock, type Logger, NO_LOG, seededRng } from '../plugin/index.ts';
import { type ChoosingRoad, createDisaggregatedRoad, type RoadDeps } from '../road/index.ts';
import { Scheduler, SessionAffinity, throughputModel } from '../scheduling/index.ts';
import { ApproximateRanks } from './approximate-ranks.ts';
import { BusySettings } from './busy-settings.ts';
import { createIndex, showTiers } from './create-index.ts';
import { defaultChoice } from './default-choice.ts';
import { endpointOf } from './event-subscriptions.ts';
import { eventsInto } from './events-into.ts';
import { followFleet } from './follow-fleet.ts';
import { keylessSessions } from './keyless-sessions.ts';
import { pluginModules } from './plugin-modules.ts';
import { SessionFeeds } from './session-feeds.ts';
import { UnheardBlocks } from './unheard-blocks.ts';
import { warnOfBlockSizes } from './warn-of-block-sizes.ts';
import { type ParityPorts, watchParity } from './watch-parity.ts';

/** What a block believed in takes in the index and in the table of beliefs, about. */
const BYTES_PER_BELIEF = 128;

/** What a router is composed from. */
export interface ComposeRouterOptions {
  readonly config: RouterConfig;
  readonly source: ConfigSource;
  readonly clock: Clock;
  /** Seed of every random choice; absent or 0 = `router.seed`, and 0 there = from the system. */
  readonly seed?: number;
  /** Seed of the rooms in which engines meet, which no other router of the fleet may draw as well; absent = as all others. */
  readonly roomSeed?: number;
  /** Who carries requests to a worker. */
  readonly transportFor: (worker: Worker) => EngineTransport;
  readonly metrics: Metrics;
  readonly log: Logger;
  /** Microseconds of a running wall clock, for records; default: the machine's. */
  readonly wallMicros?: () => number;
  /** Whether a rank publishes KV events, as far as anybody said; default: where it does is configured or advertised. */
  readonly announces?: (worker: Worker, rank: number) => boolean;
  /** How plugins are timed and watched; absent = they are not, as in virtual time. */
  readonly containment?: NonNullable<PluginHostOptions['containment']>;
  /** The configuration in force, where it can be reloaded; default: `config`. */
  readonly current?: () => RouterConfig;
  /** Plugins and policies of an older configuration serve again. */
  readonly rolledBack?: (reason: string, config: RouterConfig) => void;
  /** Definitions at hand, beside the configured plugins. */
  readonly definitions?: readonly object[];
  /** Absent = isolated plugins run in process, as in virtual time. */
  readonly threads?: NonNullable<PluginHostOptions['threads']>;
  /** Asks engines whose events were silent for `router.kv_event_idle_check`; absent = no, as in virtual time, where timers would never end. */
  readonly checksIdleEvents?: boolean;
  /** Whether the log names hint actions that engines reject; absent = yes. A replay counts them instead. */
  readonly namesRejections?: boolean;
  /** What else is known of workers, for parity checks; absent = nobody compares, as in virtual time. */
  readonly parity?: ParityPorts;
  /** Registers policies of the program that the router runs in. */
  readonly register?: NonNullable<PluginHostOptions['register']>;
}

/** A composed router. */
export interface ComposedRouter {
  readonly fleet: Fleet;
  /** Fed by the road; health checks report to it too. */
  readonly health: WorkerHealth;
  readonly blockSizes: BlockSizes;
  readonly hasher: BlockHasher;
  /** Null when no role reads cache facts. */
  readonly index: FollowedIndex | null;
  /** Null without an index. */
  readonly sessions: SessionFeeds | null;
  /** Where event sources deliver; null without an index, or when KV events are off. */
  readonly events: KvEventApplier | null;
  readonly host: ReloadableHost;
  readonly scheduler: Scheduler;
  readonly busy: BusySettings;
  readonly road: ChoosingRoad;
  /** What workers computed, to be compared with what their events told. */
  readonly unheard: UnheardBlocks;
  /** Compares what engines do with what the router believes; null = nobody does. */
  readonly parity: ParityMonitor | null;
  /** Null when `limits.decision_bytes` is 0. */
  readonly decisions: DecisionRing | null;
  /** Takes what a reloaded configuration says of scheduling and records. */
  reconfigure(config: RouterConfig): void;
  /** Disposes plugins. Requests under way are not ended. */
  close(): Promise<void>;
}

/**
 * Builds a router from its configuration, the configured workers in it.
 * @throws ResolutionError (PM_CONFIG_INVALID) when policies cannot be resolved; PointsmanError of the fleet for workers that
 *   cannot be added.
 */
export async function composeRouter(options: ComposeRouterOptions): Promise<ComposedRouter> {
  const { config, source, clock, metrics, log } = options;
  const { router, limits } = config;
  const hasher = createBlockHasher();
  const fleet = new Fleet({
    routingGroupOf: (model) => config.models.get(model)?.routingGroup ?? 'default',
    metrics,
  });
  const current = options.current ?? (() => config);
  const host = await createReloadableHost(
    {
      config,
      source,
      clock,
      metrics,
      log,
      fleet,
      modules: await pluginModules(config),
      seed: options.seed ?? 0,
      ...(options.containment === undefined ? {} : { containment: options.containment }),
      ...(options.definitions === undefined ? {} : { definitions: options.definitions }),
      ...(options.threads === undefined ? {} : { threads: options.threads }),
      ...(options.register === undefined ? {} : { register: options.register }),
    },
    ({ reason, config: older }) => options.rolledBack?.(reason, older),
  );
  const health = new WorkerHealth(fleet);
  const unheard = new UnheardBlocks(fleet);
  const blockSizes = new BlockSizes(
    fleet,
    (model) => config.models.get(model)?.blockSize ?? null,
    (model) => config.models.get(model)?.eagle ?? null,
  );
  // The index and the road ask the event stream how well it is; it feeds the one and reports late hint outcomes to the other.
  let events: KvEventApplier | null = null;
  const wantsIndex = host.resolution().some(({ needs }) => needs.cache);
  const later = (work: () => void): void => void clock.schedule(0, work);
  const countStores = (slot: OwnerSlot): boolean => countsCopies(events?.feed(slot) ?? null);
  const index = wantsIndex ? createIndex(hasher, limits.indexBytes, later, metrics, countStores) : null;
  const { useKvEvents } = router;
  const sessionParts = { fleet, host, limits, useKvEvents, clock, metrics };
  const sessions = index === null ? null : new SessionFeeds({ ...sessionParts, residency: index });
  const paceOf = (model: string): number | null => config.models.get(model)?.prefillTokensPerSecond ?? null;
  const scheduler = new Scheduler({
    fleet,
    fallback: defaultChoice(config, host.seed),
    hostCacheHitWeight: router.hostCacheHitWeight,
    diskCacheHitWeight: router.diskCacheHitWeight,
    tracksOutputBlocks: router.trackOutputBlocks,
    prefill: router.prefillLoadModel === 'none' ? null : { model: throughputModel(paceOf), clock },
    clock,
    metrics,
  });
  scheduler.engineLoads.blends = router.engineLoad === 'blend';
  scheduler.timings.setProfile(router.timingProfile);
  const affinity = new SessionAffinity({ clock, metrics }, router.sessionAffinity);
  const busy = new BusySettings({ fleet, scheduler, blockSizes, metrics, log }, config);
  const decisions =
    limits.decisionBytes === 0
      ? null
      : new DecisionRing({
          bytes: limits.decisionBytes,
          candidates: config.observe.candidates,
          hashId: keyedHash(hasher),
          startMs: clock.now(),
          metrics,
        });
  // It looks at what beliefs and streams make of the events that it hears.
  let parity: ParityMonitor | null = null;
  const beliefs =
    index === null
      ? null
      : new ApproximateRanks({
          fleet,
          residency: new ApproximateResidency({
            index,
            get timeToLiveMs() {
              return current().router.routerTtlSeconds * 1000;
            },
            maxBlocks: Math.floor(limits.indexBytes / BYTES_PER_BELIEF),
            onCorrection: () => metrics.count('pointsman_approximate_corrections_total'),
          }),
          useKvEvents: router.useKvEvents,
          announces: options.announces ?? ((worker, rank) => endpointOf(worker, rank) !== null),
          feed: (slot) => events?.feed(slot) ?? null,
          unheard: (id) => unheard.of(id),
          misleads: (slot) => parity?.misleads(slot) ?? false,
          log,
          metrics,
        });
  const keyless = keylessSessions(() => current().router.agents, metrics);
  const roadDeps: RoadDeps = {
    fleet,
    scheduler,
    blockSizes,
    index,
    hasher,
    blockHashSeed,
    runtimeFor: (partition, role, blockSize) => host.roleRuntime(partition, role, blockSize),
    classifiers: host,
    transportFor: options.transportFor,
    health,
    decisions,
    get mode() {
      return host.config.router.mode;
    },
    get concurrentRequests() {
      return current().limits.concurrentRequests;
    },
    get firstWorkerHold() {
      const { firstWorkerWaitMs: waitMs, firstWorkerWaiting: waiting } = current().limits;
      return { waitMs, waiting };
    },
    get retries() {
      const { retries, retryBudget: ratio } = current().limits;
      return { retries, ratio };
    },
    get bookingExpiryMs() {
      return current().router.activeRequestExpirySeconds * 1000;
    },
    get keyless() {
      return keyless();
    },
    queues: queueSettingsOf(config),
    affinity,
    clock,
    metrics,
    log: options.namesRejections === false ? NO_LOG : log,
    wallMicros: options.wallMicros ?? (() => performance.now() * 1000),
    events: {
      ageMs: (slot) => events?.ageMs(slot) ?? null,
      stale: (slot) => events?.feed(slot)?.stale ?? false,
      parity: (slot) => parity?.codes(slot) ?? null,
    },
    beliefs,
    sessions,
    answered: options.parity === undefined ? null : (request) => parity?.answered(request),
    asksIds: (slot) => parity?.asksIds(slot) === true,
    computedBlocks(workerId, blocks) {
      unheard.computed(workerId, blocks);
      const worker = fleet.worker(workerId);
      if (worker !== null) beliefs?.review(worker);
    },
  };
  const road = createDisaggregatedRoad(roadDeps, {
    settings: () => current().router.disaggregation,
    rng: seededRng(options.roomSeed ?? host.seed),
  });
  if (index !== null && beliefs !== null) {
    const imageTokenOf = (model: string): number | null => config.models.get(model)?.imageTokenId ?? null;
    const idleCheckMs = (): number =>
      options.checksIdleEvents === true ? current().router.kvEventIdleCheckMs : 0;
    if (options.parity !== undefined && router.useKvEvents) {
      const watched = { fleet, hasher, index, blockSizes, unheard, beliefs, clock, metrics };
      parity = watchParity({ ...watched, events: () => events, ports: options.parity });
    }
    const parts = {
      ...{ fleet, hasher, blockSizes, imageTokenOf, road, sessions },
      ...{ idleCheckMs, watch: parity, clock, metrics },
    };
    followFleet(index, fleet);
    showTiers(index, fleet, metrics);
    if (router.useKvEvents) events = eventsInto(index, beliefs, parts);
  }
  warnOfBlockSizes(fleet, blockSizes, log);
  const close = async (): Promise<void> => {
    parity?.close();
    road.close();
    health.close();
    scheduler.close();
    affinity.close();
    await host.dispose();
  };
  try {
    for (const worker of config.workers) {
      const { capabilities } = worker;
      fleet.add(
        workerSpecOf(worker, hasher),
        typeof capabilities === 'string' ? null : parseCapabilities(capabilities),
      );
    }
  } catch (thrown) {
    // Policies may have started something that only they can end.
    await close();
    throw thrown;
  }
  return {
    fleet,
    health,
    blockSizes,
    hasher,
    index,
    sessions,
    events,
    host,
    scheduler,
    busy,
    road,
    unheard,
    parity,
    decisions,
    reconfigure(next) {
      const { hostCacheHitWeight, diskCacheHitWeight, trackOutputBlocks: tracksOutputBlocks } = next.router;
      const fallback = defaultChoice(next, host.seed);
      scheduler.reconfigure({ fallback, hostCacheHitWeight, diskCacheHitWeight, tracksOutputBlocks });
      scheduler.timings.setProfile(next.router.timingProfile);
      scheduler.engineLoads.blends = next.router.engineLoad === 'blend';
      busy.follow(next);
      road.setQueues(queueSettingsOf(next));
      affinity.set(next.router.sessionAffinity);
      decisions?.setCandidates(next.observe.candidates);
    },
    close,
  };
}

/** First 8 hex digits of XXH3 with a seed that only this process knows: tells sessions apart without naming them. */
function keyedHash(hasher: BlockHasher): (text: string) => string {
  const bytes = randomBytes(8);
  const key: U64 = { lo: bytes.readUInt32LE(0), hi: bytes.readUInt32LE(4) };
  return (text) => hasher.hashBytes(Buffer.from(text), key).hi.toString(16).padStart(8, '0');
}
