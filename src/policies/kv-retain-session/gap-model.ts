// How long until a session's next turn: the gaps between turns are taken as log-normal, per kind of session, and learned as they come.

/** Turns that count: each later one takes the place of an older one bit by bit. */
const MEMORY = 1000;

interface Fit {
  turns: number;
  /** Of the natural logarithms of the gaps in ms. */
  mean: number;
  variance: number;
}

/** Gaps between turns, by kind of session. */
export class GapModel {
  readonly #fits = new Map<string, Fit>();

  /** Learns from a gap. @param kind one of few. @param ms what is below 1 counts as 1. */
  learn(kind: string, ms: number): void {
    let fit = this.#fits.get(kind);
    if (fit === undefined) {
      fit = { turns: 0, mean: 0, variance: 0 };
      this.#fits.set(kind, fit);
    }
    const value = Math.log(Math.max(1, ms));
    fit.turns = Math.min(MEMORY, fit.turns + 1);
    // Welford's update with a bounded weight.
    const delta = value - fit.mean;
    fit.mean += delta / fit.turns;
    fit.variance += (delta * (value - fit.mean) - fit.variance) / fit.turns;
  }

  /** Time within which so large a share of the next turns comes, ms; null when fewer than `least` gaps were seen. */
  quantile(kind: string, share: number, least: number): number | null {
    const fit = this.#fits.get(kind);
    if (fit === undefined || fit.turns < least) return null;
    return Math.exp(fit.mean + normalQuantile(share) * Math.sqrt(fit.variance));
  }
}

/**
 * The standard normal distribution's quantile, |error| < 4.5e-4: formula 26.2.23 of Abramowitz and Stegun, Handbook of Mathematical
 * Functions.
 * @param share in (0, 1).
 */
export function normalQuantile(share: number): number {
  if (share > 0.5) return -normalQuantile(1 - share);
  const t = Math.sqrt(-2 * Math.log(share));
  const above = 2.515517 + t * (0.802853 + t * 0.010328);
  const below = 1 + t * (1.432788 + t * (0.189269 + t * 0.001308));
  return above / below - t;
}
