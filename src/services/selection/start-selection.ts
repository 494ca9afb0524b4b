// A selection service over the parts of a router: workers, road and index are the router's own.
import type { KvEventApplier } from '../../events/index.ts';
import type { BlockSizes, Fleet } from '../../fleet/index.ts';
import type { BlockHasher, CopyableIndex } from '../../kv/index.ts';
import type { ScrapableMetrics } from '../../observe/index.ts';
import type { Clock, Logger } from '../../plugin/index.ts';
import type { ChoosingRoad } from '../../road/index.ts';
import type { Scheduler } from '../../scheduling/index.ts';
import { listenSelection } from './http-server.ts';
import type { PendingLimits } from './pending-selections.ts';
import { SelectionDesk } from './selection-desk.ts';
import { SelectionRoutes } from './selection-routes.ts';
import { StateRoutes } from './state-routes.ts';
import type { WorkerDemands } from './worker-lifecycle.ts';
import { WorkerRegistry } from './worker-registry.ts';

/** What a service is started from. */
export interface StartSelectionOptions {
  readonly host: string;
  readonly port: number;
  /** Null = callers need none. */
  readonly token: string | null;
  readonly pending: PendingLimits;
  readonly demands: (model: string) => WorkerDemands;
  readonly core: {
    readonly fleet: Fleet;
    readonly blockSizes: BlockSizes;
    readonly hasher: BlockHasher;
    readonly road: ChoosingRoad;
    readonly scheduler: Pick<Scheduler, 'loads' | 'busy'>;
    readonly index: CopyableIndex | null;
    readonly events: Pick<KvEventApplier, 'feed'> | null;
  };
  readonly clock: Clock;
  readonly metrics: ScrapableMetrics;
  readonly log: Logger;
  /** What works worse than it should, in words; shown by `/ready`. Absent = nobody looks. */
  readonly warnings?: () => readonly string[];
}

/** A running service. */
export interface RunningSelection {
  readonly url: string;
  readonly registry: WorkerRegistry;
  /** Ids reserved or being reserved; 0 when idle. */
  reservedIds(): number;
  /** Answers who waits for a turn, lets other answers finish, frees the port, ends reservations and forgets the registered workers. */
  stop(): Promise<void>;
}

/** Starts a service. @throws PM_LISTEN when the address cannot be had; then nothing runs. */
export async function startSelection(options: StartSelectionOptions): Promise<RunningSelection> {
  const { clock, core, demands, host, log, metrics, pending: limits, port, token } = options;
  const registry = new WorkerRegistry({ ...core, demands });
  const desk = new SelectionDesk({ ...core, limits, clock, metrics });
  const server = await listenSelection({
    host,
    port,
    token,
    selection: new SelectionRoutes({ ...core, desk }),
    state: new StateRoutes({ ...core, registry, desk, warnings: options.warnings ?? (() => []) }),
    hasher: core.hasher,
    metrics,
    clock,
    log,
  });
  return {
    url: server.url,
    registry,
    reservedIds: () => desk.reservedIds,
    async stop() {
      await server.close();
      desk.close();
      registry.close();
    },
  };
}
