// How fast something that is held is given back, from its recent releases: what `Retry-After` rests on.

/** Weight of the latest release in the means; the first eight count alike. */
const LATEST = 1 / 8;
/** Bounds of a `Retry-After`, in seconds. */
const SHORTEST_SECONDS = 1;
const LONGEST_SECONDS = 60;

/** The pace of one thing that is held and given back. */
export class ReleasePace {
  #releases = 0;
  #meanSize = 0;
  #meanMs = 0;
  #meanSquare = 0;
  /** Time of the latest release, or from when the next one is timed; null = nothing is held. */
  #since: number | null = null;
  #grown = 0;

  /** Something is held from `now` on after nothing was: pauses without anything to give back are no pace. */
  restart(now: number): void {
    this.#since = now;
    this.#grown = 0;
  }

  /** What is held grew by itself, or fell where `size` is negative; that much of the next release wins nothing. */
  grew(size: number): void {
    this.#grown += size;
  }

  /** `size` of it was given back; nothing, where somebody else still holds it. */
  released(size: number, now: number): void {
    const since = this.#since;
    const grown = this.#grown;
    this.restart(now);
    if (since === null) return;
    this.#releases += 1;
    const weight = Math.max(LATEST, 1 / this.#releases);
    this.#meanSize += (size - grown - this.#meanSize) * weight;
    this.#meanMs += (now - since - this.#meanMs) * weight;
    this.#meanSquare += ((now - since) * (now - since) - this.#meanSquare) * weight;
  }

  /**
   * How long until `size` will have been given back, in ms: as many mean pauses as it takes releases of mean size. Of the first pause
   * what has passed is taken off; one that is overdue is expected to be so for as long again. The more pauses vary the less the past
   * says: the first one lasts at least variance / mean², at most 1, of a mean pause.
   * @returns null while nothing was measured; Infinity where releases give back less than grows.
   */
  msUntil(size: number, now: number): number | null {
    if (this.#releases === 0) return null;
    if (this.#meanSize <= 0) return Number.POSITIVE_INFINITY;
    const pause = this.#meanMs;
    const passed = now - (this.#since ?? now);
    const variance = Math.max(0, this.#meanSquare - pause * pause);
    const unsure = pause === 0 ? 0 : Math.min(pause, variance / pause);
    const further = Math.max(0, Math.ceil(size / this.#meanSize) - 1);
    return Math.max(Math.abs(pause - passed), unsure) + further * pause;
  }
}

/** `Retry-After` for a wait in ms: whole seconds from 1 to 60; null = not known, 1. */
export function retryAfterSeconds(waitMs: number | null): number {
  if (waitMs === null) return SHORTEST_SECONDS;
  return Math.min(LONGEST_SECONDS, Math.max(SHORTEST_SECONDS, Math.ceil(waitMs / 1000)));
}
