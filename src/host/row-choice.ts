// Chooses a row by cost: lowest with seeded ties, or sampled by softmax. Both go over rows in order, so that the same draws give
// the same row everywhere.
import type { Rng } from '../plugin/index.ts';
import { SCAN_FROM } from './cost-scan.ts';
import { powerOfTwo, STEPS } from './powers.ts';
import type { CandidateTable } from './types.ts';

/** A chosen row and how it came about. */
export interface RowChoice {
  row: number;
  /** Rows with exactly the lowest cost. */
  ties: number;
  /** The draw that decided a sampled choice; null otherwise. */
  draw: number | null;
}

/** The lowest cost of some rows, before any draw. */
export interface LowestRow {
  /** First row that has it; −1 when no cost is a number below infinity. */
  row: number;
  /** Whether {@link chooseLowest} would draw: a row equalled the lowest of those before it. */
  tied: boolean;
}

/** Finds the lowest cost. NaN never is. */
export function lowestRow(costs: Float64Array, count: number, lowest: LowestRow): void {
  let least = Number.POSITIVE_INFINITY;
  let row = -1;
  let tied = false;
  for (let at = 0; at < count; at += 1) {
    const cost = costs[at]!;
    if (cost < least) {
      least = cost;
      row = at;
    } else if (cost === least) tied = true;
  }
  lowest.row = row;
  lowest.tied = tied;
}

/** Whether every cost is finite: looked at one by one where a sum of them is not, as sums of very large costs overflow. */
export function allFinite(costs: Float64Array, count: number): boolean {
  for (let row = 0; row < count; row += 1) if (!Number.isFinite(costs[row])) return false;
  return true;
}

/** What {@link chooseLowest} chooses, with the same draws, when the lowest row of the same costs is known. */
export function breakTies(costs: Float64Array, count: number, lowest: LowestRow, rng: Rng): RowChoice {
  if (lowest.tied) return chooseLowest(costs, count, rng);
  return { row: lowest.row, ties: lowest.row < 0 ? 0 : 1, draw: null };
}

/**
 * Lowest cost; among exactly equal ones uniformly at random by reservoir: the k-th tie replaces the choice with probability 1/k.
 * NaN never wins. Row −1 when no cost is a number.
 */
export function chooseLowest(costs: Float64Array, count: number, rng: Rng): RowChoice {
  let row = -1;
  let lowest = Number.POSITIVE_INFINITY;
  let ties = 0;
  for (let at = 0; at < count; at += 1) {
    const cost = costs[at]!;
    if (cost < lowest) {
      lowest = cost;
      row = at;
      ties = 1;
    } else if (cost === lowest && row >= 0) {
      ties += 1;
      if (rng.integer(ties) === 0) row = at;
    }
  }
  return { row, ties, draw: null };
}

/** Lowest cost, the first row of it, without a draw: for pins, which must not move the random sequence. */
export function firstLowest(costs: Float64Array, count: number): RowChoice {
  let row = 0;
  let ties = 0;
  for (let at = 0; at < count; at += 1) {
    if (costs[at]! < costs[row]!) {
      row = at;
      ties = 1;
    } else if (costs[at] === costs[row]) {
      ties += 1;
    }
  }
  return { row, ties, draw: null };
}

/** Rows whose weights are summed before they are added to the total, as in wasm/scan.ts. */
const GROUP = 16;
/** Where the span is less, costs are equal or those above the least weigh nothing: both is what this makes of it. */
const LEAST_SPAN = 1e-300;

/**
 * Softmax weights of costs normalised to their range: exp((min − c)/((max − min) × T)), not summing to 1; all 1 when all are equal.
 * @returns their sum, added up by groups.
 */
export function softmaxWeights(
  costs: Float64Array,
  count: number,
  temperature: number,
  weights: Float64Array,
): number {
  let lowest = Number.POSITIVE_INFINITY;
  let highest = Number.NEGATIVE_INFINITY;
  for (let row = 0; row < count; row += 1) {
    lowest = Math.min(lowest, costs[row]!);
    highest = Math.max(highest, costs[row]!);
  }
  // A range beyond the largest double is brought back by scaling everything to the larger magnitude first.
  const scale = Number.isFinite(highest - lowest) ? 1 : 1 / Math.max(Math.abs(lowest), Math.abs(highest));
  const least = lowest * scale;
  const factor = STEPS / Math.max((highest * scale - least) * temperature, LEAST_SPAN);
  let sum = 0;
  for (let start = 0; start < count; start += GROUP) {
    const end = Math.min(start + GROUP, count);
    for (let row = start; row < end; row += 1) {
      weights[row] = powerOfTwo((least - costs[row]! * scale) * factor);
    }
    sum += massOf(weights, start, end);
  }
  return sum;
}

/** Sum of the weights of one group. */
function massOf(weights: Float64Array, start: number, end: number): number {
  let even = 0;
  let odd = 0;
  let row = start;
  for (; row + 1 < end; row += 2) {
    even += weights[row]!;
    odd += weights[row + 1]!;
  }
  return row < end ? even + weights[row]! + odd : even + odd;
}

/** Chooses by the costs that were evaluated last into a table's own column and are all finite. */
export function chooseFromTable(
  { costs, count, scan }: CandidateTable,
  temperature: number,
  lowest: LowestRow,
  rng: Rng,
  scratch: Float64Array,
): RowChoice {
  if (!(temperature > 0)) return breakTies(costs, count, lowest, rng);
  if (scan !== null && count >= SCAN_FROM) return scan.sample(count, temperature, rng.next());
  return chooseSampled(costs, count, temperature, rng, scratch);
}

/** Samples a row by softmax at `temperature` > 0 with one draw: the first row whose cumulative probability reaches it. */
export function chooseSampled(
  costs: Float64Array,
  count: number,
  temperature: number,
  rng: Rng,
  scratch: Float64Array,
): RowChoice {
  const sum = softmaxWeights(costs, count, temperature, scratch);
  const draw = rng.next();
  return { row: drawnRow(scratch, count, draw * sum), ties: firstLowest(costs, count).ties, draw };
}

/** The first row whose cumulative weight reaches `target`: the group that does is found first, then the row in it. */
function drawnRow(weights: Float64Array, count: number, target: number): number {
  let cumulative = 0;
  for (let start = 0; start < count; start += GROUP) {
    const end = Math.min(start + GROUP, count);
    const mass = massOf(weights, start, end);
    if (mass === 0 || cumulative + mass < target) {
      cumulative += mass;
      continue;
    }
    let chosen = -1;
    for (let row = start; row < end; row += 1) {
      // A weight that underflowed to 0 must not win even by a draw of exactly 0.
      if (weights[row] === 0) continue;
      cumulative += weights[row]!;
      chosen = row;
      if (cumulative >= target) break;
    }
    return chosen;
  }
  return count - 1;
}
