// The two loops of the default cost that nearly every decision takes: prompts are tracked, the cache counts, its credit does not
// decay. They write all costs and find the cheapest row in one pass. Every column read costs as much as half the arithmetic, and a
// branch in the loop more, hence two of them. What they leave out of the formula is + 0 or × 1 on numbers that are not negative,
// so the numbers are those of the whole formula, to the last bit.
import type { CostFacts, CostWeights } from './linear-cost.ts';
import type { LowestRow } from './row-choice.ts';
import type { CandidateTable } from './types.ts';

/**
 * Costs where no candidate has a block below the device tier, all loads are known, and neither requests nor taints count.
 * @returns a number that is finite when all costs are and their sum does not overflow.
 */
export function deviceCosts(
  weights: CostWeights,
  table: CandidateTable,
  { promptTokens, blockSize }: CostFacts,
  costs: Float64Array,
  lowest: LowestRow,
): number {
  const creditWeight = weights.overlap_score_credit;
  const prefillScale = weights.prefill_load_scale;
  const device = table.hasTierMatches ? table.deviceBlocks : table.effectiveOverlapBlocks;
  const { count, cachedTokens, activePrefillTokens, decodeCostBlocks } = table;
  let sum = 0;
  let least = Number.POSITIVE_INFINITY;
  let leastRow = -1;
  let tied = false;
  for (let row = 0; row < count; row += 1) {
    const cached = cachedTokens[row]!;
    const seen = promptTokens >= cached ? promptTokens : cached;
    let left = (activePrefillTokens[row]! + seen) / blockSize - creditWeight * device[row]!;
    if (left < 0) left = 0;
    const cost = prefillScale * left + decodeCostBlocks[row]!;
    sum += cost;
    costs[row] = cost;
    if (cost <= least) {
      if (cost < least) {
        least = cost;
        leastRow = row;
      } else tied = true;
    }
  }
  lowest.row = leastRow;
  lowest.tied = tied;
  return sum;
}

/** The same with blocks on all tiers, loads that may be unknown, requests and taints. */
export function tierCosts(
  weights: CostWeights,
  table: CandidateTable,
  { promptTokens, blockSize }: CostFacts,
  costs: Float64Array,
  lowest: LowestRow,
): number {
  const creditWeight = weights.overlap_score_credit;
  const hostWeight = weights.host_cache_hit_weight;
  const diskWeight = weights.disk_cache_hit_weight;
  const prefillScale = weights.prefill_load_scale;
  const requestWeight = weights.decode_active_request_weight;
  const device = table.hasTierMatches ? table.deviceBlocks : table.effectiveOverlapBlocks;
  const { count, cachedTokens, hostBlocks, diskBlocks, loadAvailable, activePrefillTokens } = table;
  const { decodeCostBlocks, activeRequests, preferredTaintMultiplier } = table;
  let sum = 0;
  let least = Number.POSITIVE_INFINITY;
  let leastRow = -1;
  let tied = false;
  for (let row = 0; row < count; row += 1) {
    const credit =
      creditWeight * device[row]! + hostWeight * hostBlocks[row]! + diskWeight * diskBlocks[row]!;
    const cached = cachedTokens[row]!;
    const seen = promptTokens >= cached ? promptTokens : cached;
    const tokens = loadAvailable[row]! > 0 ? activePrefillTokens[row]! + seen : promptTokens;
    let left = tokens / blockSize - credit;
    if (left < 0) left = 0;
    const base = prefillScale * left + decodeCostBlocks[row]! + requestWeight * activeRequests[row]!;
    const cost = base * preferredTaintMultiplier[row]!;
    sum += cost;
    costs[row] = cost;
    if (cost <= least) {
      if (cost < least) {
        least = cost;
        leastRow = row;
      } else tied = true;
    }
  }
  lowest.row = leastRow;
  lowest.tied = tied;
  return sum;
}
