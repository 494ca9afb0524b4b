// A whole router with its sockets: core, event subscriptions, health checks, gateway and admin API. `serve` wraps it in a
// process; tests start it in their own.
import { randomInt, randomUUID } from 'node:crypto';
import { ConfigError, type ConfigSource, type RouterConfig } from '../config/index.ts';
import {
  askReportedLoad,
  createHttpProbe,
  createHttpTransport,
  createTokensAsker,
  DIALECTS,
  type EngineTransport,
  pollKvEvents,
} from '../engines/index.ts';
import { pollTrtllm, subscribeZmq, zmqReplay } from '../events/index.ts';
import { AdapterModels, type Fleet, HealthProber, type Worker } from '../fleet/index.ts';
import { createGateway, type Gateway } from '../gateway/index.ts';
import type { RunningPlugin } from '../host/index.ts';
import { createMetrics, type Readiness, type ScrapableMetrics } from '../observe/index.ts';
import { type Clock, type Logger, type PluginRegistry, seededRng } from '../plugin/index.ts';
import { expireBookings } from './booking-expiry.ts';
import { type ComposedRouter, composeRouter } from './compose-router.ts';
import { workersAsTokenizers } from './engine-tokenizer.ts';
import { EventSubscriptions, unconnectedStreams } from './event-subscriptions.ts';
import { FileWatch } from './file-watch.ts';
import { FirstAnswers } from './first-answers.ts';
import { fleetLog } from './fleet-log.ts';
import { snapshotsOf } from './index-snapshots.ts';
import { LocalEngines } from './local-engines.ts';
import { indexerOf } from './own-indexer.ts';
import { selectionOf } from './own-selection.ts';
import { sendParityProbes } from './parity-probes.ts';
import { threadModules } from './plugin-modules.ts';
import { readinessOf } from './readiness.ts';
import { ReportedLoads, reportsInto } from './reported-loads.ts';
import { type ReadConfig, type ReloadReport, RouterReload } from './router-reload.ts';
import { startAdmin } from './start-admin.ts';
import { idleRoleWarnings, keylessWarnings, startTokenSources, untestedWarnings } from './start-problems.ts';
import { idsDifferOf, streamOf } from './watch-parity.ts';
import { WorkerChanges } from './worker-changes.ts';

/** What a router is started from. */
export interface StartRouterOptions {
  readonly config: RouterConfig;
  readonly source: ConfigSource;
  readonly clock: Clock;
  readonly log: Logger;
  /** Tokenizer threads per model; default 1. */
  readonly tokenizerThreads?: number;
  /** Told which plugin runs, for a watchdog. */
  readonly running?: RunningPlugin;
  /** Registers policies of the program that the router runs in. */
  readonly register?: (registry: PluginRegistry) => unknown;
  /** Other pauses between health checks than the fleet's, in ms. */
  readonly healthChecks?: { readonly intervalMs: number; readonly troubledIntervalMs: number };
  /** How the configuration is read again, and from which files it came; absent = only plugins are reloaded. */
  readonly reread?: { readonly files: readonly string[]; readonly read: () => ReadConfig };
  /** Told of every configuration that comes into force later. */
  readonly applied?: (config: RouterConfig) => void;
}

/** A router that serves. */
export interface RunningRouter {
  /** `http://host:port` of the gateway. */
  readonly url: string;
  readonly adminUrl: string;
  readonly core: ComposedRouter;
  readonly metrics: ScrapableMetrics;
  readonly gateway: Gateway;
  readiness(): Readiness;
  /** The configuration in force. */
  config(): RouterConfig;
  /** Reads configuration and plugins again, as the admin API does. Never rejects. */
  reload(trigger: 'signal' | 'command'): Promise<ReloadReport>;
  /**
   * Stops gracefully: no new requests, running ones get `drainMs`, then end with an error; all sockets and threads are freed.
   * Further calls return the same promise.
   */
  stop(drainMs: number): Promise<void>;
}

/** Workers get this long to answer the first questions before the router says that it is up, in ms. */
const FIRST_ANSWERS_MS = 2_000;

/**
 * Starts a router and waits until its workers answered, or did not in time.
 * @throws ConfigError with every problem a start refuses, PointsmanError PM_LISTEN when a port is taken; then nothing runs.
 */
export async function startRouter(options: StartRouterOptions): Promise<RunningRouter> {
  const undo: (() => Promise<void> | void)[] = [];
  const unwind = async (): Promise<void> => {
    for (const step of undo.splice(0).reverse()) await step();
  };
  try {
    return await start(options, (step) => undo.push(step), unwind);
  } catch (thrown) {
    await unwind();
    throw thrown;
  }
}

async function start(
  options: StartRouterOptions,
  onStop: (step: () => Promise<void> | void) => void,
  unwind: () => Promise<void>,
): Promise<RunningRouter> {
  const { config, source, clock, log } = options;
  const live = { config, asked: askedUrls(config) };
  const metrics = createMetrics();
  const asker = createTokensAsker();
  onStop(() => asker.close());
  // The fleet comes later: it is looked at when a prompt comes.
  const running: { fleet: Fleet | null } = { fleet: null };
  const { started: tokens, problems } = await startTokenSources(config, {
    metrics,
    clock,
    threads: options.tokenizerThreads ?? 1,
    maxPromptTokens: () => live.config.limits.promptTokens,
    engines: workersAsTokenizers(
      () => running.fleet,
      asker,
      () => live.config,
    ),
  });
  onStop(() => tokens.close());
  const locals = new LocalEngines({ clock, log, rng: seededRng(randomInt(1, 2 ** 32)) });
  onStop(() => locals.close());
  if (problems.length === 0) problems.push(...(await locals.start(config)));
  if (problems.length > 0) throw new ConfigError(source, problems);
  const transport = createHttpTransport({ dialects: DIALECTS, metrics, log });
  onStop(() => transport.close());
  const transportFor = ({ spec }: Worker): EngineTransport =>
    locals.has(spec.url) ? locals.transport : transport;
  const core = await composeRouter({
    config,
    source,
    clock,
    metrics,
    log,
    transportFor,
    roomSeed: randomInt(1, 2 ** 32),
    containment: { wallMs: () => performance.now(), running: options.running ?? null },
    threads: threadModules(),
    checksIdleEvents: true,
    parity: {
      answers: (id) => first.everHealthy(id),
      stream: (worker, rank) => streamOf(subscriptions?.status() ?? null, worker, rank),
      asksIds: () => live.config.parity.asksTokenIds,
      idsDiffer: idsDifferOf((model) => tokens.sources.get(model)?.facts ?? null),
    },
    ...(options.register === undefined ? {} : { register: options.register }),
    current: () => live.config,
    rolledBack: (reason, older) => reload.rolledBack(reason, older),
  });
  onStop(() => core.close());
  onStop(expireBookings(core.road, clock));
  const { fleet } = core;
  running.fleet = fleet;
  const workers = new WorkerChanges(
    { ...core, clock, log, drainMs: () => live.config.limits.drainMs },
    config.workers,
  );
  const reload = new RouterReload({
    core,
    started: config,
    files: options.reread?.files ?? [],
    read: options.reread?.read ?? (() => ({ config, source, warnings: [], files: [] })),
    apply(next) {
      live.config = next;
      live.asked = askedUrls(next);
      core.reconfigure(next);
      workers.follow(next.workers);
      options.applied?.(next);
    },
    clock,
    metrics,
    log,
  });
  fleet.listen({
    added: () => locals.follow(live.config),
    stateChanged({ spec, state }) {
      // Whoever came back may be another release, with endpoints that the one before had not.
      if (state === 'ready') asker.forget(spec.url);
    },
    removed({ spec }) {
      transport.forget(spec.url);
      asker.forget(spec.url);
      locals.forget(spec.url);
      // Another worker may have the name of the one that left, and found its engine still there.
      locals.follow(live.config);
    },
  });
  fleet.listen(fleetLog(log));
  const keyless = keylessWarnings(config, core.host.resolution());
  for (const problem of [
    ...idleRoleWarnings(config),
    ...untestedWarnings(config),
    ...core.host.warnings,
    ...keyless,
  ])
    log.warn(source.render(problem), { code: problem.code });

  for (const [model, { notes }] of tokens.sources)
    for (const note of notes) log.info(`model ${model} ${note}`, { model });
  const snapshots = snapshotsOf(core, config, { clock, metrics, log });
  snapshots?.restore();
  snapshots?.start();
  // After the streams: the last snapshot has all that was heard.
  onStop(() => snapshots?.close());
  const subscriptions =
    core.events === null
      ? null
      : new EventSubscriptions({
          fleet,
          sink: core.events,
          clock,
          log,
          onChange: () => first.look(),
          onCut: (worker) => core.health.streamReset(worker),
          subscribe: locals.subscribe(subscribeZmq),
          poll: (asked) => {
            const blockSizeOf = (slot: number): number | null => core.blockSizes.ofSlot(slot);
            return pollTrtllm({ ...asked, poll: pollKvEvents, blockSizeOf, clock });
          },
          replay: (asked) => locals.replayOf(asked.endpoint) ?? zmqReplay(asked),
        });
  const first = new FirstAnswers(fleet, () => subscriptions?.status() ?? [], clock);
  subscriptions?.start();
  onStop(() => subscriptions?.close());
  const asks = (id: bigint): boolean => live.asked.has(fleet.worker(id)?.spec.url ?? '');
  const probe = locals.probe(createHttpProbe({ asks, clock, log }));
  const wanted = (): boolean => live.config.observe.engineLoad || live.config.router.engineLoad === 'blend';
  const heard = reportsInto(core.scheduler.engineLoads, core.blockSizes, clock);
  const reportedLoads = new ReportedLoads({
    fleet,
    wanted,
    ask: locals.loads(askReportedLoad),
    heard,
    clock,
  });
  onStop(() => reportedLoads.close());
  const prober = new HealthProber({
    fleet,
    health: core.health,
    clock,
    metrics,
    probe: first.around(reportedLoads.around(probe)),
    heard: (worker) => subscriptions?.hears(worker) ?? true,
    ...options.healthChecks,
  });
  const { parity } = core;
  if (parity !== null) {
    const computed = (id: bigint, blocks: number): void => core.unheard.computed(id, blocks);
    const probes = { ...core, monitor: parity, transportFor, computed, clock, log };
    onStop(sendParityProbes({ ...probes, config: () => live.config }));
  }
  prober.start();
  onStop(() => prober.stop());

  const gateway = createGateway({
    road: core.road,
    config: () => live.config,
    tokens: (model) => tokens.sources.get(model),
    adapters: new AdapterModels(fleet),
    readiness: () =>
      readinessOf({
        config: live.config,
        workers: fleet.workers().filter(({ spec }) => spec.registered !== true),
        starting: !first.settled,
        answered: (id) => first.everHealthy(id),
        subscriptions: subscriptions?.status() ?? null,
        feed: (slot) => core.events?.feed(slot) ?? null,
        blockSizeOf: (model) => core.blockSizes.ofModel(model),
        roles: core.host.resolution(),
        failures: core.host.failures(),
        unheard: (id) => core.unheard.of(id),
        tokenNotes: (model) => tokens.sources.get(model)?.notes ?? [],
        parity: () => core.parity?.findings() ?? [],
      }),
    metrics,
    clock,
    log,
    newRequestId: () => `req-${randomUUID()}`,
  });
  const bound = await gateway.listen(config.listen.host, config.listen.port);
  onStop(() => gateway.stop(0));
  const url = httpUrl(bound.host, bound.port);
  const admin = await startAdmin(options, {
    core,
    metrics,
    readiness: gateway.readiness,
    url,
    subscriptions,
    reportedLoads,
    reload,
  });
  onStop(() => admin.close());
  const { indexer } = config.services;
  if (indexer !== null) {
    const service = await indexerOf(core, indexer.port, config, { clock, metrics, log });
    onStop(() => service.stop());
  }
  const { selection } = config.services;
  if (selection !== null) {
    const service = await selectionOf(core, selection, config, {
      clock,
      metrics,
      log,
      warnings: () => unconnectedStreams(subscriptions),
    });
    log.info('the selection service is up', { url: service.url });
    onStop(() => service.stop());
  }
  const watch = new FileWatch({ clock, changed: () => void reload.request('file') });
  reload.onDone = () => watch.follow(reload.files, reload.last?.result === 'failed');
  watch.follow(reload.files);
  onStop(async () => {
    watch.close();
    workers.close();
    await reload.close();
  });
  await first.wait(FIRST_ANSWERS_MS);
  let stopping: Promise<void> | null = null;
  return {
    url,
    adminUrl: admin.url,
    core,
    metrics,
    gateway,
    readiness: gateway.readiness,
    config: () => live.config,
    reload: (trigger) => reload.request(trigger),
    stop(drainMs) {
      stopping ??= gateway.stop(drainMs).then(unwind);
      return stopping;
    },
  };
}

/** Workers that tell what they can do themselves. */
function askedUrls({ workers }: RouterConfig): ReadonlySet<string> {
  return new Set(workers.filter(({ capabilities }) => capabilities === 'ask').map(({ url }) => url));
}

function httpUrl(host: string, port: number): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
