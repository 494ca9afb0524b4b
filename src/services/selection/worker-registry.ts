// The workers that clients registered. Those whose records are complete are in the fleet; the others wait here for what they lack.
import type { BlockSizes, Fleet, Worker } from '../../fleet/index.ts';
import { errorText, PointsmanError } from '../../plugin/index.ts';
import { capabilitiesOf, specOf } from './registered-worker.ts';
import type { WorkerFields } from './worker-fields.ts';
import { type Lifecycle, missingOf, type WorkerDemands } from './worker-lifecycle.ts';

const MAX_WORKERS = 16_384;
/** Policies of a partition are made once and kept, so those that ever had a worker count. */
const MAX_PARTITIONS = 4096;

/** What a registry works with. */
export interface WorkerRegistryOptions {
  readonly fleet: Fleet;
  readonly blockSizes: BlockSizes;
  readonly demands: (model: string) => WorkerDemands;
}

/** A worker as `GET /workers` tells it. */
export interface ListedWorker extends Partial<WorkerFields> {
  readonly worker_id: bigint;
  readonly lifecycle: Lifecycle;
  readonly not_schedulable_reasons: readonly string[];
}

interface Entry {
  fields: WorkerFields;
  /** Why the fleet does not take it although its record is complete; null = it does, or was not asked. */
  problem: string | null;
  draining: boolean;
}

/** Registered workers by id. */
export class WorkerRegistry {
  readonly #options: WorkerRegistryOptions;
  readonly #entries = new Map<bigint, Entry>();
  readonly #partitions = new Set<string>();

  constructor(options: WorkerRegistryOptions) {
    this.#options = options;
  }

  /** Takes a worker in, in place of one of the same id. @throws PM_SELECTOR_CONFLICT, PM_SELECTOR_FULL */
  upsert(fields: WorkerFields): ListedWorker {
    const known = this.#entries.get(fields.worker_id);
    const other = known === undefined ? this.#options.fleet.worker(fields.worker_id) : null;
    if (other !== null) {
      throw new PointsmanError(
        'PM_SELECTOR_CONFLICT',
        `worker ${fields.worker_id} is one of the router's own workers; register this one under another id`,
      );
    }
    if (known === undefined && this.#entries.size >= MAX_WORKERS) {
      throw new PointsmanError(
        'PM_SELECTOR_FULL',
        `${MAX_WORKERS} workers are registered, which is the most there can be; delete some`,
      );
    }
    this.#notePartition(fields);
    return this.#put({ fields, problem: null, draining: false });
  }

  /** Changes the supplied fields of a worker. @throws PM_SELECTOR_UNKNOWN, PM_SELECTOR_FULL */
  patch(id: bigint, changes: Partial<WorkerFields>, draining: boolean | null): ListedWorker {
    const entry = this.#known(id);
    const fields = { ...entry.fields, ...changes, worker_id: id };
    this.#notePartition(fields);
    return this.#put({ fields, problem: null, draining: draining ?? entry.draining });
  }

  /** Forgets a worker, with its bookings and blocks. @throws PM_SELECTOR_UNKNOWN */
  remove(id: bigint): void {
    this.#known(id);
    this.#entries.delete(id);
    this.#options.fleet.remove(id);
    this.#retryOthers();
  }

  /** All workers, the router's own included, by ascending id. */
  list(keeps: (model: string, routingGroup: string) => boolean): ListedWorker[] {
    const { fleet } = this.#options;
    const own = fleet.workers().filter(({ spec }) => spec.registered !== true);
    const listed = [
      ...[...this.#entries.values()]
        .filter(({ fields }) => keeps(fields.model_name, fields.routing_group))
        .map((entry) => this.#listed(entry)),
      ...own
        .filter(({ spec }) => keeps(spec.model, fleet.groupOf(spec)))
        .map((worker) => this.#listedOwn(worker)),
    ];
    return listed.sort((a, b) => (a.worker_id < b.worker_id ? -1 : 1));
  }

  /** Workers that take requests now. */
  schedulable(): Worker[] {
    return this.#options.fleet.workers().filter(({ state }) => state === 'ready');
  }

  /** Takes all registered workers out of the fleet. */
  close(): void {
    for (const id of this.#entries.keys()) this.#options.fleet.remove(id);
    this.#entries.clear();
  }

  #known(id: bigint): Entry {
    const entry = this.#entries.get(id);
    if (entry !== undefined) return entry;
    throw new PointsmanError('PM_SELECTOR_UNKNOWN', `worker ${id} is not registered here`);
  }

  #put(entry: Entry): ListedWorker {
    this.#entries.set(entry.fields.worker_id, entry);
    this.#apply(entry);
    this.#retryOthers();
    return this.#listed(entry);
  }

  /** Makes the fleet what the record says. Bookings and blocks stay where the place is the same. */
  #apply(entry: Entry): void {
    const { blockSizes, demands, fleet } = this.#options;
    const { fields } = entry;
    const id = fields.worker_id;
    entry.problem = null;
    const spec = specOf(fields);
    const complete = missingOf(fields, demands(fields.model_name)).length === 0;
    if (!complete || !fleet.canUpdate(spec)) fleet.remove(id);
    if (!complete) return;
    if (fleet.worker(id) !== null) fleet.update(spec, capabilitiesOf(fields));
    else {
      const blockSize = blockSizes.ofModel(fields.model_name, fields.routing_group);
      if (blockSize !== null && blockSize !== fields.block_size) {
        entry.problem = `block_size is ${fields.block_size}, and ${blockSize} elsewhere in its model and routing group`;
        return;
      }
      try {
        fleet.add(spec, capabilitiesOf(fields));
      } catch (thrown) {
        entry.problem = errorText(thrown);
        return;
      }
    }
    fleet.setState(id, entry.draining ? 'draining' : 'ready');
  }

  /** What kept others out may be gone. */
  #retryOthers(): void {
    for (const entry of this.#entries.values()) if (entry.problem !== null) this.#apply(entry);
  }

  #notePartition({ model_name, routing_group }: WorkerFields): void {
    const key = JSON.stringify([model_name, routing_group]);
    if (this.#partitions.size >= MAX_PARTITIONS && !this.#partitions.has(key)) {
      throw new PointsmanError(
        'PM_SELECTOR_FULL',
        `${MAX_PARTITIONS} models and routing groups had workers, which is the most there can be; restart to forget them`,
      );
    }
    this.#partitions.add(key);
  }

  #listed({ draining, fields, problem }: Entry): ListedWorker {
    const { demands, fleet } = this.#options;
    const missing = missingOf(fields, demands(fields.model_name));
    if (missing.length > 0) return { ...fields, lifecycle: 'incomplete', not_schedulable_reasons: missing };
    if (problem !== null)
      return { ...fields, lifecycle: 'unschedulable', not_schedulable_reasons: [problem] };
    const drains = draining || fleet.worker(fields.worker_id)?.state === 'draining';
    const lifecycle = drains ? 'draining' : 'schedulable';
    return { ...fields, lifecycle, not_schedulable_reasons: drains ? ['it is draining'] : [] };
  }

  #listedOwn({ spec, state }: Worker): ListedWorker {
    const { blockSizes, fleet } = this.#options;
    const group = fleet.groupOf(spec);
    const lifecycle = state === 'ready' ? 'schedulable' : state === 'draining' ? 'draining' : 'unschedulable';
    return {
      worker_id: spec.id,
      model_name: spec.model,
      routing_group: group,
      endpoint: spec.url,
      block_size: blockSizes.ofModel(spec.model, group),
      data_parallel_start_rank: spec.ranks.first,
      data_parallel_size: spec.ranks.count,
      max_num_batched_tokens: spec.maxNumBatchedTokens,
      total_kv_blocks: spec.totalKvBlocks,
      taints: spec.taints,
      topology_domains: spec.topology,
      lifecycle,
      not_schedulable_reasons: state === 'ready' ? [] : [`it is ${state}`],
    };
  }
}
