// Who may go when: one number per tenant, the time up to which its share is spoken for.

/** Shares of tenants that each go on at the same rate; times in ms of one clock. */
export class Shares {
  readonly #burstMs: number;
  readonly #most: number;
  /** What a tenant asked for so far is worked off at this time; a tenant that is missing, or whose time has passed, owes nothing. */
  readonly #doneAt = new Map<string, number>();

  /**
   * @param burstMs how far a tenant may be ahead of its rate
   * @param most tenants that are told apart at once; those beyond share one entry
   */
  constructor(burstMs: number, most: number) {
    this.#burstMs = burstMs;
    this.#most = most;
  }

  /** How long a tenant would wait with `costMs` more. */
  waitOf(tenant: string, costMs: number, now: number): number {
    return Math.max(0, this.#owedUntil(this.#entryOf(tenant, now), now) + costMs - this.#burstMs - now);
  }

  /** Takes `costMs` for a tenant; the function returned gives them back. */
  take(tenant: string, costMs: number, now: number): () => void {
    const entry = this.#entryOf(tenant, now);
    this.#doneAt.set(entry, this.#owedUntil(entry, now) + costMs);
    return () => {
      const doneAt = this.#doneAt.get(entry);
      if (doneAt !== undefined) this.#doneAt.set(entry, doneAt - costMs);
    };
  }

  #owedUntil(entry: string, now: number): number {
    return Math.max(now, this.#doneAt.get(entry) ?? now);
  }

  #entryOf(tenant: string, now: number): string {
    if (this.#doneAt.has(tenant) || this.#doneAt.size < this.#most) return tenant;
    // Whoever owes nothing is as good as unknown.
    for (const [known, doneAt] of this.#doneAt) if (doneAt <= now) this.#doneAt.delete(known);
    return this.#doneAt.size < this.#most ? tenant : '';
  }
}
