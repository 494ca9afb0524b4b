// Why a request cannot be placed, as errors in words.
import { type BusyThresholds, writtenThresholds } from '../config/index.ts';
import { type Fleet, holdsAdapter, type PartitionCandidates } from '../fleet/index.ts';
import { retryAfterSeconds } from '../observe/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import type { ExcludedColumns } from './eligibility.ts';
import type { PlacementConstraints, PlacementRequest } from './types.ts';

/** The error of a pin that the request's own allow-list leaves out; null when they agree. */
export function pinOutsideAllowList(constraints: PlacementConstraints): PointsmanError | null {
  const { pinnedWorker, allowedWorkers } = constraints;
  if (pinnedWorker === null || allowedWorkers === null) return null;
  if (allowedWorkers.includes(pinnedWorker.workerId)) return null;
  return new PointsmanError(
    'PM_SELECTION_PINNED_NOT_ALLOWED',
    `the request is pinned to worker ${pinnedWorker.workerId}, which is not among its allowed workers; allow it, or drop the pin`,
    { details: { worker_id: String(pinnedWorker.workerId) } },
  );
}

/** The error of a request whose adapter none of the workers there are holds; null = it names none, one has it, or there is no worker. */
export function unknownAdapterError(
  { partition, role, loraName = null }: PlacementRequest,
  fleet: Fleet,
  { slots }: PartitionCandidates,
): PointsmanError | null {
  if (loraName === null || slots.length === 0) return null;
  for (const slot of slots) {
    const worker = fleet.workerOfSlot(slot);
    if (worker !== null && holdsAdapter(worker, loraName)) return null;
  }
  const { model, routingGroup } = partition;
  return new PointsmanError(
    'PM_SELECTION_ADAPTER_UNKNOWN',
    `no worker of model ${model} in role ${role} holds the adapter "${loraName}"; load it on one, or add it to the worker's adapters`,
    { details: { model, routing_group: routingGroup, role, adapter: loraName } },
  );
}

/** The error of a request that no worker of its partition may take. */
export function noCandidateError(request: PlacementRequest, excluded: ExcludedColumns): PointsmanError {
  const { partition, role, constraints } = request;
  const details = { model: partition.model, routing_group: partition.routingGroup, role };
  const where = `model ${partition.model} in role ${role}`;
  const reasons = excluded.summary();
  if (constraints.pinnedWorker !== null) {
    const { workerId, rank } = constraints.pinnedWorker;
    const pinned = rank === null ? `worker ${workerId}` : `rank ${rank} of worker ${workerId}`;
    return new PointsmanError(
      'PM_SELECTION_PINNED_UNAVAILABLE',
      `the request is pinned to ${pinned}, which cannot take it now (${reasons || 'no such worker'}); drop the pin, or wait until it is ready`,
      { details: { ...details, worker_id: String(workerId) } },
    );
  }
  return new PointsmanError(
    'PM_SELECTION_NO_ENDPOINTS',
    excluded.count === 0
      ? `no worker serves ${where}; add one, or wait until one is back`
      : `none of the ${excluded.count} workers and ranks that serve ${where} can take the request (${reasons})`,
    { details: { ...details, excluded: excluded.count } },
  );
}

/**
 * The error of a request whose every worker is over a busy threshold.
 * @param busy workers and ranks that could take it otherwise.
 * @param waitMs until the first of them is expected to be free; null = nothing was measured yet.
 */
export function overloadError(
  { partition, role, constraints }: PlacementRequest,
  busy: number,
  thresholds: BusyThresholds,
  waitMs: number | null,
): PointsmanError {
  const seconds = retryAfterSeconds(waitMs);
  const { pinnedWorker } = constraints;
  const set = Object.entries(writtenThresholds(thresholds)).filter(([, value]) => value !== null);
  const over = `over the busy thresholds of model ${partition.model} (${set.map((pair) => pair.join(' ')).join(', ')})`;
  const who =
    pinnedWorker === null
      ? `${busy === 1 ? 'the one worker rank' : `all ${busy} worker ranks`} that could take the request in role ${role} ${busy === 1 ? 'is' : 'are'}`
      : `the request is pinned to worker ${pinnedWorker.workerId}, which is`;
  return new PointsmanError('PM_SELECTION_OVERLOADED', `${who} ${over}; try again in ${seconds} s`, {
    details: {
      refusal: 'workers_busy',
      model: partition.model,
      role,
      busy_ranks: busy,
      ...(pinnedWorker === null ? {} : { worker_id: String(pinnedWorker.workerId) }),
      retry_after: String(seconds),
    },
  });
}
