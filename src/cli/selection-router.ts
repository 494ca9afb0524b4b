// A router without a gateway: workers register themselves, callers select and reserve, and carry their requests themselves.
import type { ConfigSource, RouterConfig } from '../config/index.ts';
import { createMetrics } from '../observe/index.ts';
import { type Clock, type Logger, type PluginRegistry, PointsmanError } from '../plugin/index.ts';
import { type RunningSelection, readWorker } from '../services/index.ts';
import { expireBookings } from './booking-expiry.ts';
import { type ComposedRouter, composeRouter } from './compose-router.ts';
import { EventSubscriptions, unconnectedStreams } from './event-subscriptions.ts';
import { fleetLog } from './fleet-log.ts';
import { selectionOf } from './own-selection.ts';
import { threadModules } from './plugin-modules.ts';

/** What a selection service is started from. */
export interface SelectionRouterOptions {
  /** Its workers are registered as clients register theirs. */
  readonly config: RouterConfig;
  readonly settings: NonNullable<RouterConfig['services']['selection']>;
  readonly source: ConfigSource;
  readonly clock: Clock;
  readonly log: Logger;
  /** Registers policies of the program that the service runs in. */
  readonly register?: (registry: PluginRegistry) => unknown;
}

/** A running one. */
export interface SelectionRouter extends RunningSelection {
  readonly core: ComposedRouter;
}

/** Starts a service with a core of its own. @throws ConfigError, PM_LISTEN; then nothing runs. */
export async function startSelectionRouter(options: SelectionRouterOptions): Promise<SelectionRouter> {
  const { clock, config, log, settings, source } = options;
  const metrics = createMetrics();
  const core = await composeRouter({
    config: { ...config, workers: [] },
    source,
    clock,
    metrics,
    log,
    transportFor() {
      throw new PointsmanError('PM_INTERNAL', 'a selection service carries no requests');
    },
    containment: { wallMs: () => performance.now(), running: null },
    threads: threadModules(),
    checksIdleEvents: true,
    ...(options.register === undefined ? {} : { register: options.register }),
  });
  const undo: (() => Promise<void> | void)[] = [() => core.close(), expireBookings(core.road, clock)];
  const unwind = async (): Promise<void> => {
    for (const step of undo.splice(0).reverse()) await step();
  };
  try {
    for (const warning of core.host.warnings) log.warn(source.render(warning), { code: warning.code });
    const subscriptions =
      core.events === null
        ? null
        : new EventSubscriptions({ fleet: core.fleet, sink: core.events, clock, log });
    subscriptions?.start();
    undo.push(() => subscriptions?.close());
    core.fleet.listen(fleetLog(log));
    const warnings = () => unconnectedStreams(subscriptions);
    const service = await selectionOf(core, settings, config, { clock, metrics, log, warnings });
    undo.push(() => service.stop());
    for (const worker of config.workers) service.registry.upsert(readWorker(recordOf(worker)));
    return { ...service, core, stop: unwind };
  } catch (thrown) {
    await unwind();
    throw thrown;
  }
}

/** A configured worker as its own registration. */
function recordOf(worker: RouterConfig['workers'][number]): object {
  if (worker.id === null) {
    throw new PointsmanError(
      'PM_USAGE',
      `worker ${worker.url} has no id; the selection service names workers by id, so give it one`,
    );
  }
  const events = Object.entries(worker.kvEvents).flatMap(([rank, { connect, poll = false }]) =>
    poll ? [] : [[rank, connect ?? '']],
  );
  return {
    worker_id: worker.id,
    model_name: worker.model,
    endpoint: worker.url,
    kv_events_endpoints: Object.fromEntries(events),
    data_parallel_start_rank: worker.ranks.first,
    data_parallel_size: worker.ranks.count,
    max_num_batched_tokens: worker.maxNumBatchedTokens,
    total_kv_blocks: worker.totalKvBlocks,
    taints: worker.taints,
    topology_domains: worker.topology,
  };
}
