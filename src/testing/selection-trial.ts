// Drives a worker-selection policy through the router's own pipeline with candidates written by hand.
import { createSoloRuntime, type SelectionFacts } from '../host/index.ts';
import {
  type CacheColumns,
  type CopyColumns,
  type LoadColumns,
  ManualClock,
  NO_LOG,
  type Partition,
  type PhaseColumns,
  type Role,
  type Row,
  type SelectionRequest,
  type WorkerSelectionPolicyDefinition,
  type WorkerTiming,
} from '../plugin/index.ts';
import { sessionOfTrial, type TrialSession } from './trial-session.ts';
import { trialTable } from './trial-table.ts';

/** Tokens per block where a trial does not say. */
const DEFAULT_BLOCK_SIZE = 16;

/** One candidate; what is left out is 0, a taint multiplier 1, and the load counts as observed when given. */
export interface TrialCandidate {
  /** Default: the row number + 1. */
  readonly workerId?: bigint;
  readonly rank?: number;
  readonly cache?: Partial<Row<CacheColumns>>;
  readonly load?: Partial<Row<LoadColumns>>;
  readonly preferredTaintMultiplier?: number;
  readonly occupancy?: number;
  /** Whether its worker says that it runs on a CPU; default false. */
  readonly onCpu?: boolean;
  /** Leading blocks of the prompt that its bookings hold. */
  readonly inFlightBlocks?: number;
  readonly phases?: Partial<Row<PhaseColumns>>;
  /** Chance that what its KV pool forgets is asked for again, 0 to 1. */
  readonly cachePressure?: number;
  /** How long it takes; what is left out is 0. */
  readonly timing?: Partial<WorkerTiming>;
  /** What the best source on another worker holds for it. `link` is that of all candidates: the first that has one says it. */
  readonly copies?: Partial<Row<CopyColumns>>;
}

/** A request of a trial: what policies see of one, as far as a test says it. */
export type TrialSelectionRequest = Partial<Omit<SelectionRequest, 'session'>> & {
  readonly session?: TrialSession | null;
};

/** What {@link testWorkerSelection} works with. */
export interface SelectionTrial {
  /** As in YAML. */
  readonly parameters?: unknown;
  /** In (worker id, rank) order, as the router hands them over. */
  readonly candidates: readonly TrialCandidate[];
  /** Default: 2,048 prompt tokens in blocks of 16, counted toward prefill, everything else absent. */
  readonly request?: TrialSelectionRequest;
  readonly role?: Role;
  readonly partition?: Partition;
  /** Seed of ties and sampling; default 1. */
  readonly seed?: number;
  /** Decisions to make, one after the other; default 1. */
  readonly decisions?: number;
}

/** One decision of the policy. */
export interface TrialDecision {
  readonly row: number;
  readonly workerId: bigint;
  readonly rank: number;
  readonly by: 'lowest_cost' | 'sampled' | 'pinned' | 'policy';
  /** Rows that shared the lowest cost. */
  readonly ties: number;
  /** Summed cost per candidate; NaN where a filter dropped it. */
  readonly costs: readonly number[];
  /** Name of the filter that dropped each candidate, null = kept. */
  readonly droppedBy: readonly (string | null)[];
  /** Whether the choice commits a KV copy. */
  readonly commitKvCopy: boolean;
}

/** What the router would prepare for a policy; what no part of it declares is false. */
export interface SelectionTrialNeeds {
  readonly cache: boolean;
  readonly load: boolean;
  readonly preferredTaint: boolean;
  readonly occupancy: boolean;
  /** Which leading blocks bookings hold. */
  readonly inFlight: boolean;
  /** What bookings are at. */
  readonly phases: boolean;
  /** How likely it is that what KV pools forget is asked for again. */
  readonly cachePressure: boolean;
  /** How long answers are. */
  readonly outputLength: boolean;
  /** How long workers take. */
  readonly timing: boolean;
  /** Copy sources per candidate. */
  readonly copies: boolean;
  /** What the prompt matched, kept until the hint policies ran. */
  readonly copyLocations: boolean;
}

/** What came out of a trial. */
export interface SelectionTrialResult {
  /** One per decision asked for; at least one. */
  readonly decisions: readonly [TrialDecision, ...TrialDecision[]];
  /** What the router would prepare for this policy. */
  readonly needs: SelectionTrialNeeds;
}

/**
 * Runs a worker-selection policy as the router would: parameters parsed, filters, scorers and picker checked.
 *
 * @throws PointsmanError PM_POLICY_PARAMETERS, PM_PLUGIN_INVALID, PM_PLUGIN_THREW, and the PM_SELECTION codes of the pipeline.
 * @example
 * const { decisions } = await testWorkerSelection(fewestRequests, {
 *   candidates: [{ load: { activeRequests: 3 } }, { load: { activeRequests: 1 } }],
 * });
 * expect(decisions[0].row).toBe(1);
 */
export async function testWorkerSelection(
  definition: WorkerSelectionPolicyDefinition,
  trial: SelectionTrial,
): Promise<SelectionTrialResult> {
  if (!Array.isArray(trial?.candidates)) {
    throw new TypeError(
      'testWorkerSelection needs candidates, a list with one entry per worker, for example { candidates: [{}, { cache: { deviceBlocks: 8 } }] }',
    );
  }
  const { decide, needs } = await openSelection(definition, trial);
  const next = (): TrialDecision => decide(trial.candidates, trial.request);
  const first = next();
  const more = Array.from({ length: (trial.decisions ?? 1) - 1 }, next);
  return { decisions: [first, ...more], needs };
}

/** A policy created once, for any number of decisions about different candidates. */
export interface OpenSelection {
  readonly needs: SelectionTrialNeeds;
  decide(candidates: readonly TrialCandidate[], request?: TrialSelectionRequest): TrialDecision;
}

/** Creates the policy of a trial. @throws as {@link testWorkerSelection}. */
export async function openSelection(
  definition: WorkerSelectionPolicyDefinition,
  trial: Omit<SelectionTrial, 'candidates'>,
): Promise<OpenSelection> {
  const runtime = await createSoloRuntime({
    selection: { definition, parameters: trial.parameters },
    partition: trial.partition ?? { model: 'test', routingGroup: 'default' },
    role: trial.role ?? 'aggregated',
    blockSize: trial.request?.blockSize ?? DEFAULT_BLOCK_SIZE,
    clock: new ManualClock(),
    seed: trial.seed ?? 1,
    log: NO_LOG,
    fleet: { workerOfSlot: () => null, slotRank: () => -1 },
  });
  return {
    needs: runtime.needs,
    decide(candidates, request = {}) {
      const table = trialTable(candidates);
      const pick = runtime.select(table, trialFacts(request));
      return {
        row: pick.row,
        workerId: table.workerIds[pick.row]!,
        rank: table.ranks[pick.row]!,
        by: pick.by,
        ties: pick.ties,
        costs: [...pick.costs.subarray(0, table.count)],
        droppedBy: pick.droppedBy ? [...pick.droppedBy] : candidates.map(() => null),
        commitKvCopy: pick.commitKvCopy === true,
      };
    },
  };
}

function trialFacts(request: TrialSelectionRequest): SelectionFacts {
  const promptTokens = request.promptTokens ?? 2048;
  const blockSize = request.blockSize ?? DEFAULT_BLOCK_SIZE;
  return {
    requestId: 'test',
    promptTokens,
    blockSize,
    requestBlocks: Math.ceil(promptTokens / blockSize),
    tracksPrefillTokens: true,
    affinityTarget: null,
    pinnedWorker: null,
    expectedOutputTokens: null,
    priority: 0,
    strictPriority: 0,
    temperatureOverride: null,
    ...request,
    session: sessionOfTrial(request.session),
  };
}
