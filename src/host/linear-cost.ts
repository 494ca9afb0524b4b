// Evaluates a declared cost over columns. Formula and the names of its terms: the README of dynamo-default-cost-fn. Budget: a few
// nanoseconds per candidate, no allocation.
import type { LinearCost } from '../plugin/index.ts';
import type { CandidateTable, SelectionFacts } from './types.ts';

/** Facts of the request that the formula reads. */
export type CostFacts = Pick<
  SelectionFacts,
  'promptTokens' | 'requestBlocks' | 'blockSize' | 'tracksPrefillTokens'
>;

/** What the evaluation depends on besides weights and columns. */
export interface CostSetting {
  /** Whether the role is `decode`. */
  readonly decode: boolean;
  /** Preferred taints do not count for a pinned request. */
  readonly taints: boolean;
}

/** Least active prefill tokens over the first `count` rows; 0 without rows. */
export function leastActivePrefill(table: CandidateTable, count: number): number {
  let least = count > 0 ? Number.POSITIVE_INFINITY : 0;
  for (let row = 0; row < count; row += 1) least = Math.min(least, table.activePrefillTokens[row]!);
  return least;
}

/** Writes the cost of rows 0 … count to `costs`; answers whether all are finite. */
export function evaluateLinearCost(
  cost: LinearCost,
  setting: CostSetting,
  table: CandidateTable,
  count: number,
  facts: CostFacts,
  costs: Float64Array,
): boolean {
  const weights = cost.weights;
  const creditWeight = weights.overlap_score_credit;
  const hostWeight = weights.host_cache_hit_weight;
  const diskWeight = weights.disk_cache_hit_weight;
  const prefillScale = weights.prefill_load_scale;
  const requestWeight = weights.decode_active_request_weight;
  const decayWeight = weights.overlap_score_credit_decay;
  const { promptTokens, requestBlocks, blockSize, tracksPrefillTokens } = facts;
  // An undeclared cache does not exist for the formula, whatever the columns hold.
  const cache = creditWeight > 0;
  const taints = setting.taints;
  const decays = tracksPrefillTokens && decayWeight > 0;
  const leastActive = decays ? leastActivePrefill(table, count) : 0;
  const creditAgainstDecode = setting.decode && !tracksPrefillTokens && cache;
  const device = table.hasTierMatches ? table.deviceBlocks : table.effectiveOverlapBlocks;
  const { cachedTokens, hostBlocks, diskBlocks, loadAvailable, activePrefillTokens, decodeCostBlocks } =
    table;
  const { activeRequests, preferredTaintMultiplier } = table;
  // x − x is 0 for a finite x and NaN for every other, so the sum tells in one comparison.
  let check = 0;
  for (let row = 0; row < count; row += 1) {
    let credit = 0;
    let cached = 0;
    if (cache) {
      const decay = decays
        ? 1 / (1 + (decayWeight * ((activePrefillTokens[row]! - leastActive) / blockSize)) / requestBlocks)
        : 1;
      credit =
        creditWeight * decay * device[row]! + hostWeight * hostBlocks[row]! + diskWeight * diskBlocks[row]!;
      cached = cachedTokens[row]!;
    }
    const requests = requestWeight * activeRequests[row]!;
    let base: number;
    if (creditAgainstDecode) {
      base = Math.max(0, decodeCostBlocks[row]! - credit) + requests;
    } else {
      let tokens = 0;
      if (tracksPrefillTokens) {
        // The prompt less its cached part plus that part: the larger of the two, as more may be cached than asked.
        tokens =
          loadAvailable[row]! > 0 ? activePrefillTokens[row]! + Math.max(promptTokens, cached) : promptTokens;
      }
      base = prefillScale * Math.max(0, tokens / blockSize - credit) + decodeCostBlocks[row]! + requests;
    }
    const value = taints ? base * preferredTaintMultiplier[row]! : base;
    check += value - value;
    costs[row] = value;
  }
  return check === 0;
}
