// Composes a router for replay: the configured policies over simulated workers, in virtual time.
import {
  type ConfigProblem,
  type ConfigSource,
  defaultConfig,
  type LoadedConfig,
  loadConfig,
  parseConfig,
  type RouterConfig,
  type WorkerConfig,
} from '../config/index.ts';
import { type DecisionListener, NO_DECISIONS } from '../observe/index.ts';
import type {
  ComposeReplayRouter,
  ReplayRouter,
  ReplayRouterOptions,
  RoutingChoice,
} from '../replay/index.ts';
import { advertisedActions, advertisedHandoff, type VirtualWorker } from '../simulator/index.ts';
import { type ComposedRouter, composeRouter } from './compose-router.ts';
import { watchPolicies } from './replay-faults.ts';

/** Decisions are read right after they are made; few need to stay. */
const DECISION_BYTES = 4 * 2 ** 20;

/** From the moment an engine is lost until a health check would find it again, in virtual time. */
const HEALTH_CHECK_MS = 1000;

/** Told of warnings about a policy file. */
export type WarnOfConfig = (source: ConfigSource, problem: ConfigProblem) => void;

/** Told what a router logs as a warning or an error; `run` is the routing's name. */
export type WarnOfRun = (run: string, line: string) => void;

/** How replay gets its routers. Errors about a policy file are those of `serve`. */
export function replayRouters(warn: WarnOfConfig, warnOfRun: WarnOfRun): ComposeReplayRouter {
  return async (options) => {
    const loaded = loadChoice(options.choice);
    for (const warning of loaded.warnings) warn(loaded.source, warning);
    const { choice } = options;
    const run = nameOf(choice);
    return composeReplayRouter(loaded, options, { warn: (line) => warnOfRun(run, line) });
  };
}

/** What else a router under replay gets, and who hears of it. */
export interface ReplayRouterExtras {
  readonly warn: (line: string) => void;
  /** Definitions at hand, beside the configured plugins. */
  readonly definitions?: readonly object[];
  readonly onDecision?: DecisionListener;
  /** What else the router is told of a worker. */
  readonly worker?: (worker: VirtualWorker) => Partial<WorkerConfig>;
  /** Sees the router that stands behind the ports. */
  readonly onComposed?: (router: ComposedRouter) => void;
}

/** One router for replay. @throws what composing a router throws. */
export async function composeReplayRouter(
  loaded: Pick<LoadedConfig, 'config' | 'source'>,
  options: ReplayRouterOptions,
  { definitions = [], onDecision, onComposed, warn, worker }: ReplayRouterExtras,
): Promise<ReplayRouter> {
  const faults = watchPolicies(warn);
  const router = await composeRouter({
    config: replayConfig(loaded.config, options, worker),
    source: loaded.source,
    clock: options.clock,
    seed: options.seed,
    transportFor: () => options.transport,
    metrics: faults.metrics,
    log: faults.log,
    definitions,
    // The virtual fleet delivers events without sockets.
    announces: () => true,
    namesRejections: false,
  });
  onComposed?.(router);
  // Simulated engines are there again as soon as they are asked.
  router.fleet.listen({
    stateChanged({ state, spec }) {
      if (state !== 'suspect' && state !== 'gone') return;
      options.clock.schedule(HEALTH_CHECK_MS, () => router.health.checkSucceeded(spec.id));
    },
  });
  const { decisions, events } = router;
  if (onDecision !== undefined) decisions?.onDecision(onDecision);
  return {
    road: router.road,
    decisions: decisions ?? NO_DECISIONS,
    eventLink(workerId) {
      if (events === null) return null;
      return {
        owner: router.fleet.slotOf(workerId, 0),
        sink: events,
        decoded: (owner, sequence, batch) => events.onDecodedBatch(owner, sequence, batch),
      };
    },
    eventFeed: (workerId) => events?.feed(router.fleet.slotOf(workerId, 0)) ?? null,
    askEventsAt: (workerId, replay) => events?.askAt(router.fleet.slotOf(workerId, 0), replay),
    policyFaults: () => faults.list(),
    close: () => router.close(),
  };
}

function nameOf(choice: RoutingChoice): string {
  switch (choice.kind) {
    case 'mode':
      return choice.mode;
    case 'built-in':
      return choice.type;
    case 'policy':
      return choice.file;
  }
}

function loadChoice(choice: RoutingChoice) {
  if (choice.kind === 'policy') return loadConfig(choice.file);
  if (choice.kind === 'built-in') {
    const { type } = choice;
    return parseConfig(`worker_selection: { aggregated: ${type}, prefill: ${type}, decode: ${type} }`, type);
  }
  const loaded = defaultConfig();
  const router = { ...loaded.config.router, mode: choice.mode };
  return { ...loaded, config: { ...loaded.config, router } };
}

/** The routing sections of a configuration, with replay's model and workers in place of its own; its only model lends its pace and queues. */
function replayConfig(
  config: RouterConfig,
  options: ReplayRouterOptions,
  more: ReplayRouterExtras['worker'],
): RouterConfig {
  const { model, blockSize, workers } = options;
  const [only] = config.models.size === 1 ? config.models.values() : [];
  return {
    ...config,
    limits: {
      ...config.limits,
      decisionBytes: DECISION_BYTES,
      concurrentRequests: Number.MAX_SAFE_INTEGER,
      // One booking per request: what a fleet does with a trace is measured, not how failures are made good.
      retries: 0,
    },
    models: new Map([
      [
        model,
        {
          name: model,
          servedAs: model,
          aliases: [],
          blockSize,
          tokens: { source: 'estimate' as const },
          routingGroup: 'default',
          prefillTokensPerSecond: only?.prefillTokensPerSecond ?? null,
          policyClasses: only?.policyClasses ?? null,
          queueProfile: only?.queueProfile ?? null,
        },
      ],
    ]),
    workers: workers.map((worker) => ({ ...workerConfig(worker, model), ...more?.(worker) })),
  };
}

function workerConfig(worker: VirtualWorker, model: string): WorkerConfig {
  const { settings } = worker;
  const actions = advertisedActions(settings);
  return {
    id: worker.id,
    model,
    url: worker.url,
    dialect: 'sim',
    role: settings.role,
    ranks: { first: 0, count: 1 },
    kvEvents: {},
    maxNumBatchedTokens: settings.maxNumBatchedTokens,
    totalKvBlocks: settings.kvBlocks,
    taints: [],
    topology: {},
    device: null,
    adapters: [],
    capabilities: {
      protocol_versions: ['0.1'],
      epoch: 'replay',
      model,
      worker_type: settings.role,
      ...(settings.role !== 'aggregated' && {
        handoff: advertisedHandoff(settings, null, worker.address),
      }),
      block_size: settings.blockSize,
      hash_scheme: `sim-xxh3/seed=${settings.hashSeed}`,
      reports_outcomes: true,
      ranks: {
        '0': {
          router_hint: true,
          ...(actions === null ? {} : { actions }),
          source_control_endpoint: worker.sourceControlEndpoint,
        },
      },
    },
    path: [],
  };
}
