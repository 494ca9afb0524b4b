// Decision inputs for tests: a booking over a few candidates, with whatever a test wants changed.
import type { DecisionInput } from './decision-input.ts';
import type { IneligibleReason } from './decision-record.ts';

/** One candidate of a test decision; what is left out is 0. */
export interface TestCandidate {
  readonly id: bigint;
  readonly rank?: number;
  readonly device?: number;
  readonly host?: number;
  readonly disk?: number;
  readonly prefill?: number;
  readonly decode?: number;
  readonly additional?: number;
  readonly requests?: number;
  readonly taint?: number;
  readonly cost?: number;
}

/** One who was not a candidate. */
export interface TestExclusion {
  readonly id: bigint;
  readonly rank?: number;
  readonly reason: IneligibleReason;
}

/** Weights of the default cost as it ships. */
export const DEFAULT_WEIGHTS = {
  overlap_score_credit: 1,
  overlap_score_credit_decay: 0,
  prefill_load_scale: 1,
  decode_active_request_weight: 0,
  host_cache_hit_weight: 0.75,
  disk_cache_hit_weight: 0.25,
  router_temperature: 0,
};

/** A decision over `candidates`, the first of them chosen. */
export function decisionInput(
  candidates: readonly TestCandidate[],
  changes: Partial<DecisionInput> = {},
  excluded: readonly TestExclusion[] = [],
): DecisionInput {
  const column = (read: (candidate: TestCandidate) => number | undefined, absent = 0): Float64Array =>
    Float64Array.from(candidates, (candidate) => read(candidate) ?? absent);
  return {
    requestId: 'req-1',
    attempt: 1,
    atMs: 1000,
    arrivedMs: 1000,
    door: 'gateway',
    model: 'tiny',
    routingGroup: 'default',
    role: 'aggregated',
    mode: 'kv',
    policy: { type: 'dynamo-default-cost-fn', instance: null, version: 'builtin' },
    session: null,
    policyClass: 'default',
    promptTokens: 4096,
    blocks: 256,
    blockSize: 16,
    tokensSource: 'local',
    estimated: null,
    headLow: 7,
    headHigh: 1,
    indexVersion: 5,
    eventAges: [],
    columns: {
      count: candidates.length,
      idWords: Uint32Array.from(
        candidates.flatMap(({ id }) => [Number(id & 0xffffffffn), Number(id >> 32n)]),
      ),
      ranks: Int32Array.from(candidates, ({ rank }) => rank ?? 0),
      deviceBlocks: column(({ device }) => device),
      hostBlocks: column(({ host }) => host),
      diskBlocks: column(({ disk }) => disk),
      activePrefillTokens: column(({ prefill }) => prefill),
      activeDecodeBlocks: column(({ decode }) => decode),
      additionalBlocks: column(({ additional }) => additional),
      activeRequests: column(({ requests }) => requests),
      preferredTaintMultiplier: column(({ taint }) => taint, 1),
    },
    costs: column(({ cost }) => cost),
    droppedBy: null,
    excluded: {
      count: excluded.length,
      workerId: (index) => excluded[index]?.id ?? 0n,
      rank: (index) => excluded[index]?.rank ?? 0,
      reason: (index) => excluded[index]?.reason ?? 'gone',
    },
    row: 0,
    costWeights: DEFAULT_WEIGHTS,
    tracksPrefillTokens: true,
    by: 'lowest_cost',
    ties: 1,
    randomDraw: null,
    temperature: 0,
    attemptId: 991,
    prefillTokens: 896,
    decodeBlocks: 256,
    predictedTokens: 3200,
    predictedHostTokens: 640,
    tokenizeMicros: 812,
    hashMicros: 6,
    lookupMicros: 11,
    selectMicros: 3,
    ...changes,
  };
}
