// Sums what scorers wrote and finds the lowest sum in the same pass: with up to three scorers every number is read once, as a pass
// over a thousand rows costs as much as a scorer.
import type { LowestRow } from './row-choice.ts';

/** The lowest of some sums. */
export interface LowestSum extends LowestRow {
  /** Rows that have it. */
  ties: number;
}

/**
 * Writes `parts[0] + parts[1] + …`, added in this order from 0, to `totals` for the first `count` rows.
 * @param zeros at least `count` of them.
 * @returns whether all sums are finite; only then is `lowest` set.
 */
export function sumCosts(
  parts: readonly Float64Array[],
  zeros: Float64Array,
  count: number,
  totals: Float64Array,
  lowest: LowestSum,
): boolean {
  let sum = parts.length > 2 ? parts[0]! : zeros;
  // A sum that is not finite stays so, whatever is added: the last pass sees it.
  for (let part = 1; part < parts.length - 2; part += 1) {
    const more = parts[part]!;
    for (let row = 0; row < count; row += 1) totals[row] = 0 + sum[row]! + more[row]!;
    sum = totals;
  }
  return sumThree(sum, parts.at(-2) ?? zeros, parts.at(-1) ?? zeros, count, totals, lowest);
}

function sumThree(
  first: Float64Array,
  second: Float64Array,
  third: Float64Array,
  count: number,
  totals: Float64Array,
  lowest: LowestSum,
): boolean {
  let least = Number.POSITIVE_INFINITY;
  let leastRow = -1;
  let ties = 0;
  let tied = false;
  for (let row = 0; row < count; row += 1) {
    // From 0: a sum of negative zeros is 0.
    const total = 0 + first[row]! + second[row]! + third[row]!;
    totals[row] = total;
    // In the order of how often; a test of its own for being finite would cost as much as all others.
    if (total > least) {
      if (total === Number.POSITIVE_INFINITY) return false;
    } else if (total < least) {
      least = total;
      leastRow = row;
      ties = 1;
    } else if (total === least && total !== Number.POSITIVE_INFINITY) {
      ties += 1;
      tied = true;
    } else return false;
  }
  lowest.row = leastRow;
  lowest.ties = ties;
  lowest.tied = tied;
  return least !== Number.NEGATIVE_INFINITY;
}
