// When turns come. A turn comes when a worker has computed a prompt; so those that are being computed are followed: when each went, how
// long it takes at the pace that was measured, and who goes in its place.
import type { TurnForecast } from '../scheduling/index.ts';

/** Weight of the latest turn in the means; the first sixteen count alike. */
const LATEST = 1 / 16;
/** Latest turns that are remembered: as many prompts at once are told apart. */
const REMEMBERED = 256;

interface Turn {
  readonly at: number;
  /** Prompt tokens to compute. */
  readonly work: number;
}

/** The pace of one queue. */
export class TurnPace {
  #turns = 0;
  #meanWork = 0;
  #meanMs = 0;
  readonly #latest: Turn[] = [];
  /** Time of the latest turn, or since when somebody waits; null = nobody does. */
  #since: number | null = null;

  /** Somebody waits from `now` on, after nobody did; or nobody does (null). */
  restart(now: number | null): void {
    this.#since = now;
  }

  /** A turn came: `work` prompt tokens went to a worker. */
  turn(work: number, now: number): void {
    const since = this.#since;
    this.#since = now;
    if (this.#latest.length === REMEMBERED) this.#latest.shift();
    this.#latest.push({ at: now, work });
    if (since === null) return;
    this.#turns += 1;
    const weight = Math.max(LATEST, 1 / this.#turns);
    this.#meanWork += (work - this.#meanWork) * weight;
    this.#meanMs += (now - since - this.#meanMs) * weight;
  }

  /**
   * Ms until the last turn of a forecast. The prompts being computed are the latest that went, as many as make up `inFlight`; each takes
   * work × (how many there are at once) × mean pause / mean work from when it went. What is overdue is expected now.
   * @param inFlight prompt tokens that workers have to compute now.
   * @returns null while nothing was measured, Infinity where the forecast does not end.
   */
  msUntil({ work, times }: TurnForecast, inFlight: number, now: number): number | null {
    if (this.#turns === 0 || this.#meanWork <= 0) return null;
    if (times === Number.POSITIVE_INFINITY) return times;
    const computed = this.#inFlight(inFlight);
    const msPerToken = (Math.max(1, computed.length) * this.#meanMs) / this.#meanWork;
    const done = computed.map(({ at, work: tokens }) => Math.max(now, at + tokens * msPerToken));
    if (done.length === 0) done.push(now);
    let at = now;
    for (const tokens of work) {
      let first = 0;
      for (let other = 1; other < done.length; other += 1) if (done[other]! < done[first]!) first = other;
      at = done[first] ?? now;
      done[first] = at + tokens * msPerToken;
    }
    return (at - now) * times;
  }

  #inFlight(tokens: number): readonly Turn[] {
    let sum = 0;
    let from = this.#latest.length;
    while (from > 0 && sum < tokens) {
      from -= 1;
      sum += this.#latest[from]?.work ?? 0;
    }
    return this.#latest.slice(from);
  }
}
