// A distribution of times in constant memory. Values fall into buckets of the float's own form (sign-free exponent and 14
// mantissa bits), so a percentile is exact to 0.007 %; the mean is exact. Only integer and bit operations decide, so every Node
// version gives the same figures.

const MANTISSA_BITS = 14;
/** Bit width dropped from the upper half of a float64, which has 20 mantissa bits. */
const DROPPED = 20 - MANTISSA_BITS;
/** 2⁻¹⁴ ms, the least value told apart from 0. */
const LEAST = 2 ** -14;
/** Values from here on share the last bucket: 2³² ms, 50 days. */
const MOST = 2 ** 32;

const float = new Float64Array(1);
const halves = new Uint32Array(float.buffer);

/** Mean and percentiles; null when there was no value. */
export interface Percentiles {
  readonly mean: number | null;
  readonly p50: number | null;
  readonly p90: number | null;
  readonly p99: number | null;
}

/** Collects values ≥ 0. */
export class Distribution {
  #counts = new Uint32Array(0);
  #count = 0;
  #sum = 0;
  #most = 0;

  add(value: number): void {
    if (this.#counts.length === 0) this.#counts = new Uint32Array(bucketOf(MOST) + 1);
    this.#counts[bucketOf(Math.min(value, MOST))]! += 1;
    this.#count += 1;
    this.#sum += value;
    this.#most = Math.max(this.#most, value);
  }

  get count(): number {
    return this.#count;
  }

  /** Nearest rank: the least value that at least p percent of the values do not exceed. */
  percentile(p: number): number | null {
    if (this.#count === 0) return null;
    const rank = Math.max(1, Math.ceil((p * this.#count) / 100));
    let seen = 0;
    let bucket = -1;
    while (seen < rank) {
      bucket += 1;
      seen += this.#counts[bucket]!;
    }
    return Math.min(middleOf(bucket), this.#most);
  }

  /** In ms, rounded to a microsecond. */
  summary(): Percentiles {
    if (this.#count === 0) return { mean: null, p50: null, p90: null, p99: null };
    return {
      mean: rounded(this.#sum / this.#count),
      p50: rounded(this.percentile(50)!),
      p90: rounded(this.percentile(90)!),
      p99: rounded(this.percentile(99)!),
    };
  }
}

/** A figure with three decimals. */
export function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}

/** A share with six decimals; null without a whole. */
export function rate(part: number, whole: number): number | null {
  return whole === 0 ? null : Math.round((part / whole) * 1e6) / 1e6;
}

function bitsOf(value: number): number {
  float[0] = value;
  return halves[1]! >>> DROPPED;
}

const FIRST = bitsOf(LEAST);

/** Bucket 0 holds what is as good as 0. */
function bucketOf(value: number): number {
  return value < LEAST ? 0 : bitsOf(value) - FIRST + 1;
}

/** The middle of a bucket. */
function middleOf(bucket: number): number {
  if (bucket === 0) return 0;
  halves[1] = ((bucket - 1 + FIRST) << DROPPED) | (1 << (DROPPED - 1));
  halves[0] = 0;
  return float[0]!;
}
