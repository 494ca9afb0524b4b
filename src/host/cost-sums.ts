// Sums what scorers wrote and finds the lowest sum in the same pass: with up to three scorers every number is read once, as a pass
// over a thousand rows costs as much as a scorer.
import { allFinite, type LowestRow } from './row-choice.ts';

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
  lowest.row = -1;
  lowest.ties = 0;
  lowest.tied = false;
  let least = Number.POSITIVE_INFINITY;
  let all = 0;
  let row = 0;
  // Four rows per turn: the engine looks up where an array lies once per array and turn, which costs more than the additions. From 0,
  // as a sum of negative zeros is 0.
  for (; row + 3 < count; row += 4) {
    const one = 0 + first[row]! + second[row]! + third[row]!;
    const two = 0 + first[row + 1]! + second[row + 1]! + third[row + 1]!;
    const three = 0 + first[row + 2]! + second[row + 2]! + third[row + 2]!;
    const four = 0 + first[row + 3]! + second[row + 3]! + third[row + 3]!;
    totals[row] = one;
    totals[row + 1] = two;
    totals[row + 2] = three;
    totals[row + 3] = four;
    all += one + two + (three + four);
    if (one <= least || two <= least || three <= least || four <= least) {
      least = noteLowest(totals, row, row + 4, least, lowest);
    }
  }
  for (let at = row; at < count; at += 1) {
    const total = 0 + first[at]! + second[at]! + third[at]!;
    totals[at] = total;
    all += total;
  }
  noteLowest(totals, row, count, least, lowest);
  return Number.isFinite(all) || allFinite(totals, count);
}

/** Goes on with rows `from` to `end`; answers the least so far. */
function noteLowest(
  totals: Float64Array,
  from: number,
  end: number,
  leastBefore: number,
  lowest: LowestSum,
): number {
  let least = leastBefore;
  for (let row = from; row < end; row += 1) {
    const total = totals[row]!;
    if (total < least) {
      least = total;
      lowest.row = row;
      lowest.ties = 1;
    } else if (total === least) {
      lowest.ties += 1;
      lowest.tied = true;
    }
  }
  return least;
}
