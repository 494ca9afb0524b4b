// Workers, policies and requests as the scheduler takes them, for tests.
import type { WorkerSpec } from '../fleet/index.ts';
import type { CandidateTable, RoleNeeds, RoleRuntime, SelectionPick } from '../host/index.ts';
import type { PlacementConstraints, PlacementRequest } from './types.ts';

/** The partition of {@link tinyWorker} and {@link placementRequest}. */
const TINY = { model: 'tiny', routingGroup: 'default' } as const;

/** A request that any worker may take. */
export const ANYWHERE: PlacementConstraints = {
  pinnedWorker: null,
  allowedWorkers: null,
  requiredTaints: [],
  preferredTaints: new Map(),
  temperature: null,
  priority: 0,
  strictPriority: 0,
};

/** A worker of one rank that says nothing of its capacity. */
export function tinyWorker(id: bigint, changes: Partial<WorkerSpec> = {}): WorkerSpec {
  return {
    id,
    model: 'tiny',
    url: 'http://127.0.0.1:9000',
    dialect: 'sim',
    role: 'aggregated',
    ranks: { first: 0, count: 1 },
    kvEvents: new Map(),
    maxNumBatchedTokens: null,
    totalKvBlocks: null,
    taints: [],
    topology: {},
    ...changes,
  };
}

/** A runtime whose choice is a function of the table. */
export function picking(
  pick: (table: CandidateTable) => number,
  needs: Partial<RoleNeeds> = {},
): RoleRuntime {
  return {
    policy: { type: 'test', instance: null, version: '1' },
    needs: {
      cache: true,
      load: true,
      preferredTaint: true,
      occupancy: true,
      inFlight: false,
      phases: false,
      cachePressure: false,
      outputLength: false,
      timing: false,
      copies: false,
      copyLocations: false,
      lineage: false,
      residency: false,
      ...needs,
    },
    costWeights: null,
    select: (table): SelectionPick => ({
      row: pick(table),
      costs: new Float64Array(table.count),
      droppedBy: null,
      by: 'policy',
      ties: 1,
      randomDraw: null,
    }),
    hintStage: null,
  };
}

/** A request of 100 tokens in blocks of 16 whose hashes are not known, for the first candidate. */
export function placementRequest(changes: Partial<PlacementRequest> = {}): PlacementRequest {
  return {
    requestId: 'r',
    partition: TINY,
    role: 'aggregated',
    runtime: picking(() => 0),
    promptTokens: 100,
    blockSize: 16,
    hashes: null,
    match: null,
    session: null,
    constraints: ANYWHERE,
    expectedOutputTokens: null,
    ...changes,
  };
}
