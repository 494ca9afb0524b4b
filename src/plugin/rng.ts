// Injected randomness: small, seeded, the same numbers on every Node version (integer arithmetic only).
import { PointsmanError } from './errors.ts';

/** Source of random numbers. */
export interface Rng {
  /** Uniform in [0, 1), 32 bits of resolution. */
  next(): number;
  /** Uniform integer in [0, n); `n` an integer ≥ 1, else PointsmanError PM_PLUGIN_INVALID. */
  integer(n: number): number;
}

/**
 * A reproducible generator (sfc32 by Chris Doty-Humphrey, public domain: practrand.sourceforge.net).
 * @param seed any safe integer; equal seeds give equal sequences.
 */
export function seededRng(seed: number): Rng {
  let a = seed >>> 0;
  let b = Math.floor(seed / 4294967296) >>> 0;
  let c = 0x9e3779b9;
  let counter = 1;
  const step = (): number => {
    const sum = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + sum) | 0;
    return sum >>> 0;
  };
  for (let warmUp = 0; warmUp < 15; warmUp += 1) step();
  return {
    next: () => step() / 4294967296,
    integer(n) {
      // NaN would go on as the number of a row, or as a condition that is never true.
      if (!(Number.isSafeInteger(n) && n >= 1)) {
        throw new PointsmanError(
          'PM_PLUGIN_INVALID',
          `rng.integer: n must be an integer from 1, got ${typeof n === 'number' ? n : `a value of type ${typeof n}`}`,
        );
      }
      return Math.floor((step() / 4294967296) * n);
    },
  };
}
