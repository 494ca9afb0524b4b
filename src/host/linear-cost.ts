// Evaluates a declared cost over columns. Formula and the names of its terms: the README of dynamo-default-cost-fn. Budget: a few
// nanoseconds per candidate, no allocation.
import type { Commitment, LinearCost } from '../plugin/index.ts';
import { readsAllColumns, SCAN_FROM } from './cost-scan.ts';
import { allFinite, type LowestRow, lowestRow } from './row-choice.ts';
import type { CandidateTable, SelectionFacts } from './types.ts';
import { deviceCosts, tierCosts } from './usual-cost.ts';

/** The weights of a declared cost, all given. */
export type CostWeights = LinearCost['weights'];

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

/** Writes the cost of every row to `costs` and the cheapest to `lowest`; answers whether all costs are finite. */
export function evaluateLinearCost(
  cost: LinearCost<Commitment>,
  setting: CostSetting,
  table: CandidateTable,
  facts: CostFacts,
  costs: Float64Array,
  lowest: LowestRow,
): boolean {
  const { weights } = cost;
  const usual =
    cost.commits.length === 0 &&
    facts.tracksPrefillTokens &&
    setting.taints &&
    weights.overlap_score_credit > 0;
  const { inFlight } = cost;
  const plain = inFlight && weights.overlap_score_credit_decay > 0;
  if (usual && !plain && table.count >= SCAN_FROM && table.scan !== null && costs === table.costs) {
    return table.scan.evaluate(weights, inFlight, table, facts, lowest) || allFinite(costs, table.count);
  }
  let sum: number;
  if (!usual || inFlight || weights.overlap_score_credit_decay > 0) {
    sum = anyCosts(cost, setting, table, facts, costs);
    lowestRow(costs, table.count, lowest);
  } else if (readsAllColumns(table, weights.decode_active_request_weight)) {
    sum = tierCosts(weights, table, facts, costs, lowest);
  } else {
    sum = deviceCosts(weights, table, facts, costs, lowest);
  }
  return Number.isFinite(sum) || allFinite(costs, table.count);
}

/** The whole formula. Returns a number that is finite when all costs are and their sum does not overflow. */
function anyCosts(
  { commits, inFlight, weights }: LinearCost<Commitment>,
  setting: CostSetting,
  table: CandidateTable,
  facts: CostFacts,
  costs: Float64Array,
): number {
  const { count } = table;
  const creditWeight = weights.overlap_score_credit;
  const hostWeight = weights.host_cache_hit_weight;
  const diskWeight = weights.disk_cache_hit_weight;
  const prefillScale = weights.prefill_load_scale;
  const requestWeight = weights.decode_active_request_weight;
  const decayWeight = weights.overlap_score_credit_decay;
  const copyWeight = commits.length > 0 ? weights.shared_cache_multiplier : 0;
  const { promptTokens, requestBlocks, blockSize, tracksPrefillTokens } = facts;
  // An undeclared cache does not exist for the formula, whatever the columns hold.
  const cache = creditWeight > 0;
  const taints = setting.taints;
  const decays = tracksPrefillTokens && decayWeight > 0;
  const leastActive = decays ? leastActivePrefill(table, count) : 0;
  const creditAgainstDecode = setting.decode && !tracksPrefillTokens && (cache || copyWeight > 0);
  const device = table.hasTierMatches ? table.deviceBlocks : table.effectiveOverlapBlocks;
  const { cachedTokens, hostBlocks, diskBlocks, loadAvailable, activePrefillTokens, decodeCostBlocks } =
    table;
  const { activeRequests, preferredTaintMultiplier, copyableBlocks, inFlightBlocks } = table;
  let sum = 0;
  for (let row = 0; row < count; row += 1) {
    let credit = 0;
    let cached = 0;
    if (cache) {
      const decay = decays
        ? 1 / (1 + (decayWeight * ((activePrefillTokens[row]! - leastActive) / blockSize)) / requestBlocks)
        : 1;
      const onDevice = device[row]!;
      let held = onDevice;
      let onHost = hostBlocks[row]!;
      if (inFlight) {
        held = inFlightBlocks[row]!;
        if (held < onDevice) held = onDevice;
        onHost = onDevice + onHost - held;
        if (onHost < 0) onHost = 0;
      }
      credit = creditWeight * decay * held + hostWeight * onHost + diskWeight * diskBlocks[row]!;
      cached = cachedTokens[row]!;
    }
    if (copyWeight > 0) credit += copyWeight * copyableBlocks[row]!;
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
    sum += value;
    costs[row] = value;
  }
  return sum;
}
