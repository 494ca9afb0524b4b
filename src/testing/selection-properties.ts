// The properties a host expects of every worker-selection policy, tried on candidates made at random.
import {
  exactJsonStringify,
  PointsmanError,
  type Rng,
  type Role,
  seededRng,
  type WorkerSelectionPolicyDefinition,
} from '../plugin/index.ts';
import { overBudget, type PropertyFault } from './properties.ts';
import {
  type OpenSelection,
  openSelection,
  type TrialCandidate,
  type TrialDecision,
  type TrialSelectionRequest,
} from './selection-trial.ts';

/**
 * - `valid`: every cost is finite, every pick is a candidate, nothing is thrown; also for a single worker, a one-token prompt, and
 *   workers of which nothing is known.
 * - `repeatable`: the same seed and candidates give the same decisions.
 * - `permutation-stable`: what a worker costs, and whether it is filtered, does not depend on its row.
 * - `no-starvation`: while every booking adds load and none ends, each worker gets its turn, also when one holds the whole prompt.
 * - `within-budget`: the median decision among 64 workers takes at most 1 ms.
 */
export type SelectionProperty =
  | 'valid'
  | 'repeatable'
  | 'permutation-stable'
  | 'no-starvation'
  | 'within-budget';

/** What {@link checkWorkerSelection} works with. */
export interface SelectionCheck {
  /** As in YAML. */
  readonly parameters?: unknown;
  readonly role?: Role;
  /** What every request has; the prompt's length varies unless given. */
  readonly request?: TrialSelectionRequest;
  /** Which to check; default all. */
  readonly properties?: readonly SelectionProperty[];
  /** Sets of candidates to try; default 100. */
  readonly trials?: number;
  /** Default 1. */
  readonly seed?: number;
}

const ALL: readonly SelectionProperty[] = [
  'valid',
  'repeatable',
  'permutation-stable',
  'no-starvation',
  'within-budget',
];
/** Answers that refuse a request, which a policy may. */
const REFUSALS: readonly string[] = ['PM_SELECTION_ALL_FILTERED', 'PM_SELECTION_PIN_REQUIRED'];
const BLOCK_SIZE = 16;
const CROWD = 64;
const WORKERS = 4;
const TURNS = 64 * WORKERS;
/** Costs summed in another order may differ in their last digits. */
const ROUNDING = 1e-9;

/**
 * Checks the properties; answers those that do not hold, each at most once, so an empty list when all is well.
 *
 * @throws PointsmanError PM_POLICY_PARAMETERS, PM_PLUGIN_INVALID, PM_PLUGIN_THREW (from `create`).
 * @example
 * expect(await checkWorkerSelection(fewestRequests)).toEqual([]);
 */
export async function checkWorkerSelection(
  definition: WorkerSelectionPolicyDefinition,
  check: SelectionCheck = {},
): Promise<readonly PropertyFault<SelectionProperty>[]> {
  const { parameters, properties = ALL, request: given = {}, role, seed = 1, trials = 100 } = check;
  const rng = seededRng(seed);
  const open = (): Promise<OpenSelection> =>
    openSelection(definition, { parameters, request: given, seed, ...(role === undefined ? {} : { role }) });
  const faults = new Map<SelectionProperty, string>();
  const tell = (property: SelectionProperty, message: string | null): void => {
    if (message !== null && properties.includes(property) && !faults.has(property))
      faults.set(property, message);
  };
  await open();
  for (let trial = 0; trial < trials; trial += 1) {
    const promptTokens = trial === 0 ? 1 : promptLength(rng);
    const request = { blockSize: BLOCK_SIZE, promptTokens, ...given };
    const candidates = randomCandidates(rng, request);
    const decisions = tries(await open(), candidates, request);
    if ('code' in decisions) {
      tell('valid', `${decisions.message} [${decisions.code}]${forInput(candidates, request)}`);
      continue;
    }
    const again = tries(await open(), candidates, request);
    if (exactJsonStringify(again) !== exactJsonStringify(decisions)) {
      tell('repeatable', `the same seed gave another decision${forInput(candidates, request)}`);
      continue;
    }
    const shuffled = shuffle(rng, candidates);
    const other = tries(await open(), shuffled, request);
    tell('permutation-stable', moved(decisions, candidates, other, shuffled));
  }
  if (properties.includes('no-starvation')) {
    tell('no-starvation', starved(await open(), given, false) ?? starved(await open(), given, true));
  }
  if (properties.includes('within-budget')) tell('within-budget', await slow(await open(), rng, given));
  return [...faults].map(([property, message]) => ({ property, message }));
}

interface Failure {
  readonly code: string;
  readonly message: string;
}

/** Some decisions, or what went wrong; none when the request is refused. */
function tries(
  policy: OpenSelection,
  candidates: readonly TrialCandidate[],
  request: TrialSelectionRequest,
  decisions = 3,
): readonly TrialDecision[] | Failure {
  try {
    return Array.from({ length: decisions }, () => policy.decide(candidates, request));
  } catch (thrown) {
    if (!(thrown instanceof PointsmanError)) throw thrown;
    return REFUSALS.includes(thrown.code) ? [] : { code: thrown.code, message: thrown.message };
  }
}

/** Every other prompt ends with a block. */
function promptLength(rng: Rng): number {
  return rng.integer(2) === 0 ? 1 + rng.integer(8_192) : BLOCK_SIZE * (1 + rng.integer(512));
}

function randomCandidates(rng: Rng, request: { promptTokens: number; blockSize: number }): TrialCandidate[] {
  const blocks = Math.ceil(request.promptTokens / request.blockSize);
  return Array.from({ length: 1 + rng.integer(8) }, (_, row) => {
    const worker = { workerId: BigInt(row + 1), rank: 0 };
    // Nothing is known of a worker that has just come.
    if (rng.integer(4) === 0) return worker;
    // Nothing and all of the prompt are where formulas break.
    const deviceBlocks = [0, blocks][rng.integer(8)] ?? rng.integer(blocks + 1);
    const hostBlocks = rng.integer(blocks - deviceBlocks + 1);
    return {
      ...worker,
      cache: {
        deviceBlocks,
        hostBlocks,
        effectiveOverlapBlocks: deviceBlocks + hostBlocks,
        cachedTokens: (deviceBlocks + hostBlocks) * request.blockSize,
        hasTierMatches: true,
      },
      load: {
        activePrefillTokens: rng.integer(100_000),
        decodeCostBlocks: rng.integer(100_000),
        activeRequests: rng.integer(512),
      },
      occupancy: rng.integer(512),
      onCpu: rng.integer(2) === 1,
      inFlightBlocks: [0, blocks][rng.integer(4)] ?? rng.integer(blocks + 1),
      phases: randomPhases(rng),
      cachePressure: rng.next(),
      timing: {
        prefillTokenMs: rng.next() / 10,
        prefillAttentionMs: rng.next() / 1e6,
        prefillPassMs: 20 * rng.next(),
        decodeMs: 1 + 10 * rng.next(),
        decodeFillMs: 100 * rng.next(),
      },
      preferredTaintMultiplier: 0.5 + rng.next(),
      copies: copiesBeside(rng, blocks, deviceBlocks + hostBlocks),
    };
  });
}

function randomPhases(rng: Rng): NonNullable<TrialCandidate['phases']> {
  const prefillRequests = rng.integer(8);
  const prefillTokens = prefillRequests * rng.integer(10_000);
  return {
    prefillRequests,
    prefillTokens,
    prefillAttention: prefillTokens * rng.integer(10_000),
    prefillFrontMs: prefillRequests === 0 ? 0 : 1_000 * rng.next(),
    decodeRequests: rng.integer(256),
    promptTokens: prefillTokens + rng.integer(2_000_000),
  };
}

function copiesBeside(rng: Rng, blocks: number, own: number): NonNullable<TrialCandidate['copies']> {
  const sourcePrefixBlocks = rng.integer(blocks + 1);
  return { sourcePrefixBlocks, copyableBlocks: Math.max(0, sourcePrefixBlocks - own) };
}

function shuffle<T>(rng: Rng, list: readonly T[]): T[] {
  const shuffled = [...list];
  for (let index = shuffled.length - 1; index > 0; index -= 1) {
    const other = rng.integer(index + 1);
    [shuffled[index], shuffled[other]] = [shuffled[other]!, shuffled[index]!];
  }
  return shuffled;
}

/** Which worker costs something else, or is filtered otherwise, in another row. */
function moved(
  decisions: readonly TrialDecision[],
  candidates: readonly TrialCandidate[],
  others: readonly TrialDecision[] | Failure,
  shuffled: readonly TrialCandidate[],
): string | null {
  if ('code' in others) return `with the rows in another order: ${others.message} [${others.code}]`;
  const [here] = decisions;
  const [there] = others;
  if (here === undefined || there === undefined) return null;
  for (const [row, candidate] of candidates.entries()) {
    const other = shuffled.indexOf(candidate);
    const [a, b] = [here.costs[row] ?? 0, there.costs[other] ?? 0];
    const isSame = Number.isNaN(a) ? Number.isNaN(b) : Math.abs(a - b) <= ROUNDING * Math.max(1, Math.abs(a));
    if (isSame && here.droppedBy[row] === there.droppedBy[other]) continue;
    return `worker ${candidate.workerId} costs ${a} in row ${row} and ${b} in row ${other} (NaN = filtered)`;
  }
  return null;
}

/** Books and books until everyone should have had a turn. */
function starved(policy: OpenSelection, given: TrialSelectionRequest, oneHoldsAll: boolean): string | null {
  const request = { promptTokens: 2_048, blockSize: BLOCK_SIZE, ...given };
  const blocks = Math.ceil(request.promptTokens / request.blockSize);
  const turns = new Array<number>(WORKERS).fill(0);
  for (let turn = 0; turn < TURNS; turn += 1) {
    const candidates = turns.map((booked, row): TrialCandidate => {
      const held = oneHoldsAll && row === 1 ? blocks : 0;
      return {
        cache: {
          deviceBlocks: held,
          effectiveOverlapBlocks: held,
          cachedTokens: held * request.blockSize,
          hasTierMatches: oneHoldsAll,
        },
        load: {
          activePrefillTokens: booked * request.promptTokens,
          decodeCostBlocks: (booked + 1) * blocks,
          activeRequests: booked,
        },
        occupancy: booked,
      };
    });
    const decided = tries(policy, candidates, request, 1);
    // A refusal is an answer of its own; what is invalid is told as such.
    if ('code' in decided || decided[0] === undefined) return null;
    turns[decided[0].row]! += 1;
  }
  const idle = turns.indexOf(0);
  if (idle < 0) return null;
  const situation = oneHoldsAll ? 'equal but for worker 2, which holds the prompt' : 'equal';
  return `${TURNS} requests that never end were booked on ${WORKERS} workers, ${situation}, and worker ${idle + 1} got none: ${turns.join(', ')}`;
}

async function slow(policy: OpenSelection, rng: Rng, given: TrialSelectionRequest): Promise<string | null> {
  const request = { promptTokens: 8_192, blockSize: BLOCK_SIZE, ...given };
  const crowd: TrialCandidate[] = [];
  while (crowd.length < CROWD) crowd.push(...randomCandidates(rng, request));
  const candidates = crowd.slice(0, CROWD).map((one, row) => ({ ...one, workerId: BigInt(row + 1) }));
  return overBudget(() => tries(policy, candidates, request, 1));
}

function forInput(candidates: readonly TrialCandidate[], request: TrialSelectionRequest): string {
  return ` for request ${exactJsonStringify(request)} and candidates ${exactJsonStringify(candidates)}`;
}
