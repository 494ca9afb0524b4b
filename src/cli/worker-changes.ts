// Brings the fleet in line with a configuration that was read again: workers join at once, and leave when their bookings are done.
import { isDeepStrictEqual } from 'node:util';
import type { RouterConfig, WorkerConfig } from '../config/index.ts';
import { type Fleet, parseCapabilities, type WorkerSpec, workerSpecOf } from '../fleet/index.ts';
import type { BlockHasher } from '../kv/index.ts';
import { type Clock, errorText, type Logger, type WorkerId } from '../plugin/index.ts';
import type { Scheduler } from '../scheduling/index.ts';

/** How often a worker that leaves is looked at, in ms. */
const LOOK_MS = 100;

/** What changes are made on. */
export interface WorkerChangesOptions {
  readonly fleet: Fleet;
  readonly scheduler: Scheduler;
  readonly hasher: BlockHasher;
  readonly clock: Clock;
  readonly log: Logger;
  /** How long a worker that leaves may finish, in ms. */
  readonly drainMs: () => number;
}

/** The workers that configuration names. */
export class WorkerChanges {
  readonly #options: WorkerChangesOptions;
  /** Those of the configuration in force, as written. */
  #wanted: ReadonlyMap<bigint, WorkerConfig>;
  readonly #leaving = new Map<bigint, { readonly until: number }>();
  #cancel: (() => void) | null = null;
  #closed = false;

  constructor(options: WorkerChangesOptions, workers: RouterConfig['workers']) {
    this.#options = options;
    this.#wanted = this.#byId(workers);
  }

  /** Follows a configuration, whose workers were found in order. Workers that were added otherwise stay. */
  follow(workers: RouterConfig['workers']): void {
    const { clock, drainMs, fleet, log } = this.#options;
    const before = this.#wanted;
    this.#wanted = this.#byId(workers);
    for (const [id, worker] of before) {
      if (isSame(worker, this.#wanted.get(id)) || fleet.worker(id) === null) continue;
      log.info('a worker leaves: it finishes what it has', { worker: id, url: worker.url });
      fleet.setState(id, 'draining');
      this.#leaving.set(id, { until: clock.now() + drainMs() });
    }
    this.#look();
  }

  /** Stops looking. */
  close(): void {
    this.#closed = true;
    this.#cancel?.();
  }

  /** Takes out who is done, takes in who is missing; comes again while somebody is to leave. */
  #look(): void {
    const { clock, fleet, scheduler } = this.#options;
    this.#cancel?.();
    this.#cancel = null;
    for (const [id, { until }] of [...this.#leaving]) {
      const worker = fleet.worker(id);
      const idle = worker?.slots.every((slot) => scheduler.loads.isIdle(slot)) ?? true;
      if (worker !== null && !idle && worker.state !== 'gone' && clock.now() < until) continue;
      this.#leaving.delete(id);
      fleet.remove(id);
    }
    for (const [id, worker] of this.#wanted) {
      const known = fleet.worker(id);
      if (known === null) this.#join(worker);
      else if (this.#leaving.has(id) && isDeepStrictEqual(known.spec, this.#specOf(worker))) {
        // It was taken out of the file and put back before it had left.
        this.#leaving.delete(id);
        if (known.state === 'draining') fleet.setState(id, 'ready');
      }
    }
    if (this.#leaving.size > 0 && !this.#closed) {
      this.#cancel = clock.schedule(LOOK_MS, () => this.#look());
    }
  }

  #join(worker: WorkerConfig): void {
    const { fleet, log } = this.#options;
    const { capabilities, url } = worker;
    try {
      const spec = this.#specOf(worker);
      fleet.add(spec, typeof capabilities === 'string' ? null : parseCapabilities(capabilities));
    } catch (thrown) {
      log.error('a worker could not be added', { url, error: errorText(thrown) });
    }
  }

  #byId(workers: RouterConfig['workers']): ReadonlyMap<WorkerId, WorkerConfig> {
    return new Map(workers.map((worker) => [this.#specOf(worker).id, worker]));
  }

  #specOf(worker: WorkerConfig): WorkerSpec {
    return workerSpecOf(worker, this.#options.hasher);
  }
}

/** Whether two entries say the same, wherever they stand in the file. */
function isSame(one: WorkerConfig, other: WorkerConfig | undefined): boolean {
  return other !== undefined && isDeepStrictEqual({ ...one, path: [] }, { ...other, path: [] });
}
