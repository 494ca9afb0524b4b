// Whether a registered worker can take requests, and what it lacks.
import type { WorkerFields } from './worker-fields.ts';

/** `incomplete` lacks something that it must say; `unschedulable` says all, but cannot be taken as it is. */
export type Lifecycle = 'incomplete' | 'schedulable' | 'draining' | 'unschedulable';

/** What this service needs of workers. */
export interface WorkerDemands {
  /** Whether KV events are listened to. */
  readonly kvEvents: boolean;
  /** Whether requests queue by how busy workers are. */
  readonly queueing: boolean;
}

/** Where a rank publishes its KV events; null = nobody said. */
export function eventsEndpointOf(fields: WorkerFields, rank: number): string | null {
  const alone = fields.data_parallel_size === 1 ? fields.kv_events_endpoint : null;
  return fields.kv_events_endpoints[String(rank)] ?? alone;
}

/** What a record lacks, in words; empty = nothing. */
export function missingOf(fields: WorkerFields, demands: WorkerDemands): string[] {
  const { data_parallel_size: size, data_parallel_start_rank: first } = fields;
  const missing: string[] = [];
  if ((fields.endpoint ?? '') === '') missing.push('endpoint is missing');
  if ((fields.block_size ?? 0) === 0) missing.push('block_size is missing or 0');
  if (size === 0) missing.push('data_parallel_size is 0');
  if (demands.queueing && (fields.max_num_batched_tokens ?? 0) === 0)
    missing.push('max_num_batched_tokens is missing or 0, which queueing needs');
  if (!demands.kvEvents) return missing;
  const silent: number[] = [];
  for (let rank = first; rank < first + size; rank += 1)
    if (eventsEndpointOf(fields, rank) === null) silent.push(rank);
  const [one] = silent;
  if (one === undefined) return missing;
  const whose = silent.length === 1 ? `rank ${one}` : `rank ${one} and ${silent.length - 1} more`;
  const where = size === 1 ? 'kv_events_endpoint or kv_events_endpoints' : 'kv_events_endpoints';
  missing.push(`${where} names no endpoint of ${whose}`);
  return missing;
}
