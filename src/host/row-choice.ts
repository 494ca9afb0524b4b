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
  /** Whether a later row has it too. */
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
      tied = false;
    } else if (cost === least) tied = true;
  }
  lowest.row = row;
  lowest.tied = tied && row >= 0;
}

/** Whether every cost is finite: looked at one by one where a sum of them is not, as sums of very large costs overflow. */
export function allFinite(costs: Float64Array, count: number): boolean {
  for (let row = 0; row < count; row += 1) if (!Number.isFinite(costs[row])) return false;
  return true;
}

/** What {@link chooseLowest} chooses, with the same draw, when the lowest row of the same costs is known. */
export function breakTies(costs: Float64Array, count: number, lowest: LowestRow, rng: Rng): RowChoice {
  const { row } = lowest;
  if (!lowest.tied) return { row, ties: row < 0 ? 0 : 1, draw: null };
  const least = costs[row]!;
  let ties = 1;
  for (let at = row + 1; at < count; at += 1) if (costs[at] === least) ties += 1;
  return { row: tiedRow(costs, count, costs[row]!, rng.integer(ties)), ties, draw: null };
}

/**
 * Lowest cost; among exactly equal ones uniformly at random by one draw, which counts from the last. Counted first, as a draw per tie
 * would cost more than all the rest where a fleet is idle and every worker ties. NaN never wins. Row −1 when no cost is a number.
 */
export function chooseLowest(costs: Float64Array, count: number, rng: Rng): RowChoice {
  const lowest = { row: -1, tied: false };
  lowestRow(costs, count, lowest);
  return breakTies(costs, count, lowest, rng);
}

/** The row of cost `least` that so many others of it follow. */
function tiedRow(costs: Float64Array, count: number, least: number, behind: number): number {
  let row = count - 1;
  for (let left = behind; costs[row] !== least || left > 0; row -= 1) if (costs[row] === least) left -= 1;
  return row;
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
  const scanned = scan !== null && count >= SCAN_FROM;
  if (temperature > 0) {
    return scanned
      ? scan.sample(count, temperature, rng.next())
      : chooseSampled(costs, count, temperature, rng, scratch);
  }
  if (!scanned || !lowest.tied) return breakTies(costs, count, lowest, rng);
  const ties = scan.tiesFrom(lowest.row, count);
  return { row: tiedRow(costs, count, costs[lowest.row]!, rng.integer(ties)), ties, draw: null };
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
