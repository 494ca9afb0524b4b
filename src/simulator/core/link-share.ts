// The network link of one rank, shared fairly by its running transfers, incoming and outgoing alike.

/** Counts transfers and tells when the share of each changes. */
export class LinkShare {
  readonly #gbps: number;
  readonly #before: ((at: number) => void)[] = [];
  readonly #after: (() => void)[] = [];
  #transfers = 0;

  /** @param gbps capacity of the link, Gbit/s. */
  constructor(gbps: number) {
    this.#gbps = gbps;
  }

  /** What one transfer gets now, Gbit/s. */
  get share(): number {
    return this.#gbps / Math.max(1, this.#transfers);
  }

  /** `before` is called with the old share still in force, `after` with the new one. */
  onChange(listeners: { readonly before?: (at: number) => void; readonly after?: () => void }): void {
    if (listeners.before) this.#before.push(listeners.before);
    if (listeners.after) this.#after.push(listeners.after);
  }

  join(at: number): void {
    this.#change(1, at);
  }

  leave(at: number): void {
    this.#change(-1, at);
  }

  #change(by: number, at: number): void {
    for (const listener of this.#before) listener(at);
    this.#transfers += by;
    for (const listener of this.#after) listener();
  }
}
