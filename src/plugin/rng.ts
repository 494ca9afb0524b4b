// Injected randomness: small, seeded, the same numbers on every Node version (integer arithmetic only).

/** Source of random numbers. */
export interface Rng {
  /** Uniform in [0, 1), 32 bits of resolution. */
  next(): number;
  /** Uniform integer in [0, n); `n` ≥ 1. */
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
    integer: (n) => Math.floor((step() / 4294967296) * n),
  };
}
