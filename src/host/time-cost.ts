// Evaluates a declared cost in time over columns: by the scan where they lie in its memory, else in a plain loop, with the same numbers.
// Budget: a few nanoseconds per candidate, no allocation.
import type { TimeCost } from '../plugin/index.ts';
import { SCAN_FROM } from './cost-scan.ts';
import { allFinite, type LowestRow } from './row-choice.ts';
import { creditCopies } from './time-copies.ts';
import { timeRows } from './time-rows.ts';
import { TIME_TERMS, type TimeFacts, writeTimeTerms } from './time-terms.ts';
import type { CandidateTable } from './types.ts';

/** Terms of plain loops. */
const PLAIN_TERMS = new Float64Array(TIME_TERMS);

/**
 * Writes the cost of every row to `costs` and the cheapest to `lowest`; answers whether all costs are finite.
 * @param taints whether preferred taints count.
 */
export function evaluateTimeCost(
  cost: TimeCost,
  taints: boolean,
  table: CandidateTable,
  facts: TimeFacts,
  costs: Float64Array,
  lowest: LowestRow,
): boolean {
  const { count, timings, timingKind } = table;
  lowest.row = -1;
  lowest.tied = false;
  const { timing } = cost;
  const learns =
    timing.prefill_us_per_token === null ||
    timing.attention_ns_per_pair === null ||
    timing.decode_ms === null ||
    timing.decode_fill_ms === null;
  let finite: boolean;
  if (!learns || timings.length <= 1) {
    finite = evaluateKind(cost, taints, table, facts, costs, lowest, 0, count, learns ? 0 : -1);
  } else {
    finite = true;
    // Rows of a kind mostly stand together.
    for (let from = 0; from < count; ) {
      const kind = timingKind[from]!;
      let end = from + 1;
      while (end < count && timingKind[end] === kind) end += 1;
      if (!evaluateKind(cost, taints, table, facts, costs, lowest, from, end, kind)) finite = false;
      from = end;
    }
  }
  return finite || allFinite(costs, count);
}

/** Rows `from` to `end`, all of a kind; −1 = no kind's times are asked for. False where a cost, or the sum of them, is not finite. */
function evaluateKind(
  cost: TimeCost,
  taints: boolean,
  table: CandidateTable,
  facts: TimeFacts,
  costs: Float64Array,
  lowest: LowestRow,
  from: number,
  end: number,
  kind: number,
): boolean {
  const { scan, averageOutputTokens, hasLowerTierMatches, hasTaintMultipliers } = table;
  const learnt = kind < 0 ? undefined : table.timings[kind];
  let terms: Float64Array = PLAIN_TERMS;
  let finite: boolean;
  if (scan !== null && end - from >= SCAN_FROM && costs === table.costs && (taints || !hasTaintMultipliers)) {
    terms = scan.timeTerms;
    writeTimeTerms(terms, cost, learnt, facts, averageOutputTokens);
    finite = scan.evaluateTimes(table, hasLowerTierMatches || hasTaintMultipliers, from, end, lowest);
  } else {
    writeTimeTerms(terms, cost, learnt, facts, averageOutputTokens);
    finite = Number.isFinite(timeRows(terms, taints, table, costs, from, end, lowest));
  }
  if (cost.peerCopies && table.hasCopies)
    creditCopies(terms, cost, facts, taints, table, costs, from, end, lowest);
  return finite;
}
