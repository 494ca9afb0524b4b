// What the service knows: workers, loads, what prompts would cost where.
import type { KvEventApplier } from '../../events/index.ts';
import type { Fleet, Worker } from '../../fleet/index.ts';
import type { CopyableIndex } from '../../kv/index.ts';
import type { Partition } from '../../plugin/index.ts';
import type { ChoosingRoad, Projection } from '../../road/index.ts';
import { NO_CONSTRAINTS } from '../../road/index.ts';
import type { Scheduler } from '../../scheduling/index.ts';
import type { DumpSource } from '../indexer/dump-events.ts';
import { loadRows } from './answers.ts';
import { badField, given, nameOf, objectOf } from './fields.ts';
import { readPrompt } from './prompt-fields.ts';
import { readOverrides } from './request-fields.ts';
import { probeRequest } from './road-requests.ts';
import { notReady, type SelectionDesk } from './selection-desk.ts';
import { OK, type WireAnswer } from './wire-answer.ts';
import { readChanges, readPartition, readWorker } from './worker-fields.ts';
import type { WorkerRegistry } from './worker-registry.ts';

/** What the routes work with. */
export interface StateRoutesOptions {
  readonly registry: WorkerRegistry;
  readonly desk: SelectionDesk;
  readonly fleet: Fleet;
  readonly road: ChoosingRoad;
  readonly scheduler: Pick<Scheduler, 'loads'>;
  /** Null = no policy reads what workers have cached. */
  readonly index: CopyableIndex | null;
  /** Null = no events are heard. */
  readonly events: Pick<KvEventApplier, 'feed'> | null;
  /** Sentences for `/ready`. */
  readonly warnings: () => readonly string[];
}

/** Weights of the published default cost, where a role runs another policy. */
const PUBLISHED_WEIGHTS = {
  overlap_score_credit: 1,
  host_cache_hit_weight: 0.75,
  disk_cache_hit_weight: 0.25,
};

/** The routes. */
export class StateRoutes {
  readonly #options: StateRoutesOptions;

  constructor(options: StateRoutesOptions) {
    this.#options = options;
  }

  /** `GET /workers` */
  workers(query: URLSearchParams): WireAnswer {
    return { status: 200, value: this.#options.registry.list(filterOf(query)) };
  }

  /** `POST /workers` */
  register(body: unknown): WireAnswer {
    return { status: 201, value: this.#options.registry.upsert(readWorker(body)) };
  }

  /** `PATCH /workers/{id}` */
  patch(id: bigint, body: unknown): WireAnswer {
    const { lifecycle } = objectOf(body, 'the body');
    const wanted = given(lifecycle, 'lifecycle', nameOf);
    if (wanted !== null && wanted !== 'draining' && wanted !== 'schedulable')
      throw badField('lifecycle', 'draining or schedulable');
    const draining = wanted === null ? null : wanted === 'draining';
    return { status: 200, value: this.#options.registry.patch(id, readChanges(body), draining) };
  }

  /** `DELETE /workers/{id}` */
  remove(id: bigint): WireAnswer {
    this.#options.registry.remove(id);
    return OK;
  }

  /** `GET /ready` */
  ready(): WireAnswer {
    const { registry } = this.#options;
    const schedulable = registry.schedulable().length;
    const warnings = this.#options.warnings();
    const value = {
      ready: schedulable > 0,
      schedulable_workers: schedulable,
      workers: registry.list(() => true),
      // No member of the published answer: it is there only when there is something to say.
      ...(warnings.length === 0 ? {} : { warnings }),
    };
    return { status: schedulable > 0 ? 200 : 503, value };
  }

  /** `GET /loads` */
  loads(query: URLSearchParams): WireAnswer {
    const { road, scheduler } = this.#options;
    const value = this.#partitions(filterOf(query)).map(({ partition, workers }) => {
      const { promptTokens, requests } = road.waitingOf(partition);
      return {
        model_name: partition.model,
        routing_group: partition.routingGroup,
        loads: loadRows(workers, scheduler.loads),
        pending_count: requests,
        pending_isl_tokens: promptTokens,
      };
    });
    return { status: 200, value };
  }

  /** `POST /potential_loads` */
  potentialLoads(body: unknown): WireAnswer {
    const { promptTokens, projection, tracksPrefill } = this.#project(body);
    const { table } = projection;
    const value = Array.from({ length: table.count }, (_, row) => ({
      worker_id: table.workerIds[row],
      dp_rank: table.ranks[row],
      potential_prefill_tokens:
        (table.activePrefillTokens[row] ?? 0) +
        (tracksPrefill ? Math.max(0, promptTokens - (table.cachedTokens[row] ?? 0)) : 0),
      potential_decode_blocks: table.decodeCostBlocks[row],
      active_requests: table.activeRequests[row],
    }));
    return { status: 200, value };
  }

  /** `POST /overlap_scores` */
  overlapScores(body: unknown): WireAnswer {
    const { blocks, projection } = this.#project(body);
    const { lookup, table } = projection;
    const weights = { ...PUBLISHED_WEIGHTS, ...lookup.runtime.costWeights };
    const workers = Array.from({ length: table.count }, (_, row) => {
      const [device, host, disk] = [table.deviceBlocks, table.hostBlocks, table.diskBlocks].map(
        (column) => column[row] ?? 0,
      ) as [number, number, number];
      return {
        worker_id: table.workerIds[row],
        dp_rank: table.ranks[row],
        device_blocks: device,
        host_pinned_blocks: device + host,
        disk_blocks: device + host + disk,
        host_pinned_extension_blocks: host,
        disk_extension_blocks: disk,
        router_credit_blocks:
          weights.overlap_score_credit * device +
          weights.host_cache_hit_weight * host +
          weights.disk_cache_hit_weight * disk,
      };
    });
    return {
      status: 200,
      value: {
        block_size: lookup.blockSize,
        num_blocks: blocks,
        workers,
        shared_cache: { enabled: false, total_hit_blocks: 0, ranges: [] },
      },
    };
  }

  /** The parts of `GET /dump`. */
  dumpSources(): DumpSource[] {
    const { desk, events, fleet, index } = this.#options;
    if (index === null || events === null) return [];
    return this.#partitions(() => true).map(({ partition, workers }) => ({
      key: `${partition.model}:${partition.routingGroup}`,
      model: partition.model,
      routingGroup: partition.routingGroup,
      blockSize: desk.shapeOf(partition).blockSize,
      index,
      events,
      owners: () =>
        workers.flatMap(({ slots, spec }) =>
          slots.map((slot) => [slot, { instance: spec.id, rank: fleet.slotRank(slot) }] as const),
        ),
    }));
  }

  #project(body: unknown): {
    readonly projection: Projection;
    readonly promptTokens: number;
    readonly blocks: number;
    readonly tracksPrefill: boolean;
  } {
    const { desk, fleet, road } = this.#options;
    const fields = objectOf(body, 'the body');
    const partition = readPartition(fields);
    const overrides = readOverrides(fields.router_config_override);
    const read = readPrompt(fields, true);
    if (fleet.candidates(partition, 'aggregated', true).slots.length === 0) throw notReady(partition);
    const prompt = read(desk.shapeOf(partition));
    const projection = road.project(
      probeRequest({
        id: '',
        partition,
        prompt,
        overrides,
        constraints: NO_CONSTRAINTS,
        affinityTarget: null,
        session: null,
        policyClass: null,
        expectedOutputTokens: null,
      }),
    );
    const { hashes, promptTokens } = prompt;
    return {
      projection,
      promptTokens,
      blocks: hashes.blocks,
      tracksPrefill: overrides.tracksPrefill ?? true,
    };
  }

  /** Those with workers, by name. */
  #partitions(keeps: Keeps): { readonly partition: Partition; readonly workers: readonly Worker[] }[] {
    const { fleet } = this.#options;
    const found = new Map<string, { partition: Partition; workers: Worker[] }>();
    for (const worker of fleet.workers()) {
      const partition = { model: worker.spec.model, routingGroup: fleet.groupOf(worker.spec) };
      if (worker.spec.role !== 'aggregated' || !keeps(partition.model, partition.routingGroup)) continue;
      const key = JSON.stringify([partition.model, partition.routingGroup]);
      const known = found.get(key);
      if (known === undefined) found.set(key, { partition, workers: [worker] });
      else known.workers.push(worker);
    }
    return [...found].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, entry]) => entry);
  }
}

type Keeps = (model: string, routingGroup: string) => boolean;

/** Absent parts keep everything. */
function filterOf(query: URLSearchParams): Keeps {
  const model = query.get('model_name');
  const group = query.get('routing_group') ?? query.get('tenant_id');
  return (a, b) => (model === null || a === model) && (group === null || b === group);
}
