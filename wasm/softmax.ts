// The weights of a sampled choice by softmax, two per vector, and the row that a draw falls on. The twin is src/host/row-choice.ts.

/** 1.5 × 2^52: adding it rounds to a whole number, which then stands in the low bits. */
const ROUNDER: f64 = 6755399441055744;
/** ln 2 / 256, and the further terms of the series of 2^(f / 256). */
const FIRST: f64 = 0.6931471805599453 / 256;
const SECOND: f64 = (FIRST * FIRST) / 2;
const THIRD: f64 = (FIRST * FIRST * FIRST) / 6;
/** Powers are counted in 256ths of a halving. */
const STEPS: f64 = 256 / 0.6931471805599453;
const LEAST_SPAN: f64 = 1e-300;
const LEAST_STEPS: f64 = -256000;
/** Rows whose weights are summed before they are added to the total. */
const GROUP: i32 = 16;

/**
 * Writes the softmax weights of `count` ≥ 1 costs, which are ≥ 0 and finite, and the mass of every group of them:
 * exp((min − cost) / span) with span = (max − min) × temperature. `total` gets the sum of masses, `table` has 2^(k / 256).
 * Answers how many costs are the lowest.
 */
export function softmax(
  costs: usize,
  weights: usize,
  masses: usize,
  table: usize,
  total: usize,
  count: i32,
  temperature: f64,
): i32 {
  const first = load<f64>(costs);
  let lows = f64x2.splat(first);
  let highs = lows;
  let row = 0;
  let at = costs;
  for (; row + 4 <= count; row += 4) {
    const a = v128.load(at);
    const b = v128.load(at, 16);
    lows = f64x2.pmin(lows, f64x2.pmin(a, b));
    highs = f64x2.pmax(highs, f64x2.pmax(a, b));
    at += 32;
  }
  let lowest = Math.min(f64x2.extract_lane(lows, 0), f64x2.extract_lane(lows, 1));
  let highest = Math.max(f64x2.extract_lane(highs, 0), f64x2.extract_lane(highs, 1));
  for (; row < count; row++) {
    const cost = load<f64>(at);
    lowest = Math.min(lowest, cost);
    highest = Math.max(highest, cost);
    at += 8;
  }
  const factor = f64x2.splat(STEPS / Math.max((highest - lowest) * temperature, LEAST_SPAN));
  const least = f64x2.splat(lowest);
  let sum: f64 = 0;
  let ties = i64x2.splat(0);
  for (row = 0; row < count; row += GROUP) {
    const pairsEnd = costs + (((min(count - row, GROUP) >> 1) as usize) << 4);
    let mass = f64x2.splat(0);
    while (costs < pairsEnd) {
      const two = v128.load(costs);
      const weight = powers(f64x2.mul(f64x2.sub(least, two), factor), table);
      v128.store(weights, weight);
      mass = f64x2.add(mass, weight);
      // True is −1.
      ties = i64x2.sub(ties, f64x2.eq(two, least));
      costs += 16;
      weights += 16;
    }
    if (count - row < GROUP && (count & 1) == 1) {
      // The lane behind the last row counts for nothing.
      const last = v128.load64_zero(costs);
      const weight = powers(f64x2.mul(f64x2.sub(least, last), factor), table);
      v128.store64_lane(weights, weight, 0);
      mass = f64x2.add(mass, f64x2.replace_lane(weight, 1, 0));
      ties = i64x2.sub(ties, i64x2.replace_lane(f64x2.eq(last, least), 1, 0));
    }
    const ofGroup = f64x2.extract_lane(mass, 0) + f64x2.extract_lane(mass, 1);
    store<f64>(masses, ofGroup);
    masses += 8;
    sum += ofGroup;
  }
  store<f64>(total, sum);
  return (i64x2.extract_lane(ties, 0) + i64x2.extract_lane(ties, 1)) as i32;
}

/** 2^(steps / 256) of two steps ≤ 0; 0 below −256,000. The twin is src/host/powers.ts. */
@inline
function powers(steps: v128, table: usize): v128 {
  const rounded = f64x2.add(steps, f64x2.splat(ROUNDER));
  const f = f64x2.sub(steps, f64x2.sub(rounded, f64x2.splat(ROUNDER)));
  let series = f64x2.add(f64x2.mul(f, f64x2.splat(THIRD)), f64x2.splat(SECOND));
  series = f64x2.add(f64x2.mul(series, f), f64x2.splat(FIRST));
  series = f64x2.add(f64x2.mul(series, f), f64x2.splat(1));
  // The whole number k in the low bits: 2^(k mod 256 / 256) from the table, the rest of k goes to the exponent.
  const low = ((i32x4.extract_lane(rounded, 0) & 255) << 3) as usize;
  const high = ((i32x4.extract_lane(rounded, 2) & 255) << 3) as usize;
  const fraction = v128.load64_lane(table + high, v128.load64_zero(table + low), 1);
  const power = i64x2.add(fraction, i64x2.shl(i64x2.shr_u(rounded, 8), 52));
  return v128.and(f64x2.mul(power, series), f64x2.ge(steps, f64x2.splat(LEAST_STEPS)));
}

/** The first row whose cumulative weight reaches `target`; −1 where none does. */
export function drawnRow(weights: usize, masses: usize, count: i32, target: f64): i32 {
  let before: f64 = 0;
  for (let row = 0; row < count; row += GROUP) {
    const mass = load<f64>(masses);
    masses += 8;
    if (mass != 0 && before + mass >= target) return rowWithin(weights, row, min(row + GROUP, count), before, target);
    before += mass;
  }
  return -1;
}

/** The same in a group known to reach it; the last row with a weight where rounding leaves it short. */
function rowWithin(weights: usize, row: i32, end: i32, before: f64, target: f64): i32 {
  let chosen = -1;
  for (; row < end; row++) {
    const weight = load<f64>(weights + ((row as usize) << 3));
    if (weight == 0) continue;
    before += weight;
    chosen = row;
    if (before >= target) break;
  }
  return chosen;
}
