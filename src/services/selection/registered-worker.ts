// From a registered record to the fleet's.
import { rankEndpoint } from '../../events/index.ts';
import type { KvEventEndpoints, WorkerCapabilities, WorkerSpec } from '../../fleet/index.ts';
import type { WorkerFields } from './worker-fields.ts';
import { eventsEndpointOf } from './worker-lifecycle.ts';

/** Workers that say so in their record share blocks among themselves, and with no others. */
const HASH_SCHEME = 'registered';

/** The fleet's record of a worker whose own is complete. */
export function specOf(fields: WorkerFields): WorkerSpec {
  return {
    id: fields.worker_id,
    model: fields.model_name,
    routingGroup: fields.routing_group,
    url: fields.endpoint ?? '',
    dialect: 'auto',
    role: 'aggregated',
    ranks: { first: fields.data_parallel_start_rank, count: fields.data_parallel_size },
    kvEvents: eventsOf(fields),
    blockSize: fields.block_size,
    eagle: fields.is_eagle,
    maxNumBatchedTokens: fields.max_num_batched_tokens || null,
    totalKvBlocks: fields.total_kv_blocks || null,
    taints: fields.taints,
    topology: fields.topology_domains,
    registered: true,
  };
}

/** What the record says of KV hints; null = the worker takes none. */
export function capabilitiesOf(fields: WorkerFields): WorkerCapabilities | null {
  const workerType = fields.router_hint_worker_type ?? '';
  if (workerType === '') return null;
  const actions = fields.router_hint_actions === null ? null : new Set(fields.router_hint_actions);
  return {
    epoch: HASH_SCHEME,
    model: fields.model_name,
    workerType,
    blockSize: fields.block_size ?? 0,
    hashScheme: HASH_SCHEME,
    reportsOutcomes: false,
    totalKvBlocks: fields.total_kv_blocks || null,
    maxNumBatchedTokens: fields.max_num_batched_tokens || null,
    ranks: new Map(
      ranksOf(fields).map((rank) => {
        const endpoint = fields.router_hint_source_control_endpoints[String(rank)] ?? '';
        return [rank, { routerHint: true, actions, sourceControlEndpoint: endpoint || null }];
      }),
    ),
  };
}

function eventsOf(fields: WorkerFields): Map<number, KvEventEndpoints> {
  const { data_parallel_start_rank: first, replay_endpoint: replay } = fields;
  return new Map(
    ranksOf(fields).flatMap((rank): [number, KvEventEndpoints][] => {
      const address = eventsEndpointOf(fields, rank);
      if (address === null) return [];
      const asked = replay === null ? null : rankEndpoint(replay, rank - first);
      return [[rank, { address, binds: false, replay: asked, topic: '' }]];
    }),
  );
}

function ranksOf({ data_parallel_size: count, data_parallel_start_rank: first }: WorkerFields): number[] {
  return Array.from({ length: count }, (_, index) => first + index);
}
