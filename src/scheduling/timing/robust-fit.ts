// Coefficients of a time that is a sum of parts, learnt from observed times one by one. Least squares over the ratio to a starting
// estimate: every observation is divided by what the start says, so short and long ones count alike. Robust, as what is observed holds
// waits that nobody knows of: no observation counts as more than a few times the present estimate, older ones fade, and no factor leaves
// fixed bounds.

/** Observations until which wide misses are believed. */
const SETTLING = 24;
/** An observation counts as at most so many times the estimate, or one part of so many, while settling and then. */
const WIDE = 4;
const NARROW = 2;
/** A new observation outweighs one that is so many older e times. */
const MEMORY = 192;
/** Strength, in observations, with which parts are drawn to the common factor: keeps what the data does not tell apart together. */
const RIDGE = 0.5;
/** Strength of the start. */
const START_WEIGHT = 1;
/** Largest departure of the common factor from the start, and of a part from the common factor. */
const MOST = 64;
const MOST_APART = 8;
const LEAST_APART = 1 / 4;
/** Ms; nothing longer is a time of a pass. */
const LONGEST = 3_600_000;

/** One fitted sum of parts. */
export class RobustFit {
  /** Ms per unit of each part, as it started. */
  readonly #start: readonly number[];
  readonly #leastApart: number;
  /** Factors on the start, in force. */
  readonly #factors: number[];
  /** Normal equations: Σ share × share, row by row, and Σ share × ratio. */
  readonly #matrix: number[];
  readonly #target: number[];
  readonly #shares: number[];
  readonly #work: number[];
  #weight = 0;
  #ratios = 0;
  #seen = 0;
  #error = 0;

  /**
   * @param start ms per unit of each part, all > 0.
   * @param leastApart smallest factor of a part on the common one.
   */
  constructor(start: readonly number[], leastApart = LEAST_APART) {
    this.#leastApart = leastApart;
    const parts = start.length;
    this.#start = start;
    this.#factors = new Array<number>(parts).fill(1);
    this.#matrix = new Array<number>(parts * parts).fill(0);
    this.#target = new Array<number>(parts).fill(0);
    this.#shares = new Array<number>(parts).fill(0);
    this.#work = new Array<number>(parts * (parts + 1)).fill(0);
  }

  /** Observations that count now. */
  get observations(): number {
    return this.#weight;
  }

  /** Mean |ln(observed / expected)| of late observations, before they were learnt from; at most ln 64. */
  get error(): number {
    return this.#error;
  }

  /** 0 to 1. */
  get confidence(): number {
    return this.#weight / (this.#weight + 8) / (1 + this.#error);
  }

  /** Ms per unit of a part. */
  coefficient(part: number): number {
    return (this.#start[part] ?? 0) * (this.#factors[part] ?? 0);
  }

  /**
   * Learns from a time.
   * @param units of each part in it.
   * @returns false when that cannot be an observation, and nothing changed.
   */
  observe(units: readonly number[], ms: number): boolean {
    if (!(ms > 0 && ms <= LONGEST)) return false;
    let expected = 0;
    for (const [part, start] of this.#start.entries()) {
      const unit = units[part] ?? 0;
      if (!(unit >= 0)) return false;
      this.#shares[part] = start * unit;
      expected += start * unit;
    }
    if (!(expected > 0 && expected <= LONGEST * MOST)) return false;
    let now = 0;
    for (const [part, ms] of this.#shares.entries()) {
      this.#shares[part] = ms / expected;
      now += (ms / expected) * (this.#factors[part] ?? 1);
    }
    const miss = Math.min(MOST, Math.max(1 / MOST, ms / expected / now));
    const most = this.#seen < SETTLING ? WIDE : NARROW;
    this.#learn(now * Math.min(most, Math.max(1 / most, miss)));
    this.#seen = Math.min(SETTLING, this.#seen + 1);
    this.#error += (Math.abs(Math.log(miss)) - this.#error) / Math.min(32, this.#weight);
    return true;
  }

  #learn(ratio: number): void {
    const keep = 1 - 1 / MEMORY;
    const parts = this.#start.length;
    this.#weight = this.#weight * keep + 1;
    this.#ratios = this.#ratios * keep + ratio;
    for (let row = 0; row < parts; row += 1) {
      const share = this.#shares[row] ?? 0;
      this.#target[row] = (this.#target[row] ?? 0) * keep + share * ratio;
      for (let column = 0; column < parts; column += 1) {
        const at = row * parts + column;
        this.#matrix[at] = (this.#matrix[at] ?? 0) * keep + share * (this.#shares[column] ?? 0);
      }
    }
    const common = (this.#ratios + START_WEIGHT) / (this.#weight + START_WEIGHT);
    this.#solve(Math.min(MOST, Math.max(1 / MOST, common)));
  }

  /** Factors from the normal equations with the ridge, by elimination: the matrix is positive definite, so no pivot is 0. */
  #solve(common: number): void {
    const parts = this.#start.length;
    const wide = parts + 1;
    const work = this.#work;
    for (let row = 0; row < parts; row += 1) {
      for (let column = 0; column < parts; column += 1)
        work[row * wide + column] = (this.#matrix[row * parts + column] ?? 0) + (row === column ? RIDGE : 0);
      work[row * wide + parts] = (this.#target[row] ?? 0) + RIDGE * common;
    }
    for (let pivot = 0; pivot < parts; pivot += 1) {
      for (let row = pivot + 1; row < parts; row += 1) {
        const times = (work[row * wide + pivot] ?? 0) / (work[pivot * wide + pivot] ?? 1);
        for (let column = pivot; column <= parts; column += 1)
          work[row * wide + column] =
            (work[row * wide + column] ?? 0) - times * (work[pivot * wide + column] ?? 0);
      }
    }
    for (let row = parts - 1; row >= 0; row -= 1) {
      let left = work[row * wide + parts] ?? 0;
      for (let column = row + 1; column < parts; column += 1)
        left -= (work[row * wide + column] ?? 0) * (work[column * wide + parts] ?? 0);
      work[row * wide + parts] = left / (work[row * wide + row] ?? 1);
    }
    for (let part = 0; part < parts; part += 1) {
      const factor = work[part * wide + parts] ?? common;
      this.#factors[part] = Math.min(common * MOST_APART, Math.max(common * this.#leastApart, factor));
    }
  }
}
