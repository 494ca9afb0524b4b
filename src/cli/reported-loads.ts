// What engines say of their own load, asked with each health check that succeeds. It stands beside what the router has booked
// and is never mixed with it: the one lags behind, the other knows this router's requests only.
import type { ReportedLoad } from '../engines/index.ts';
import type { Fleet, Probe, Worker } from '../fleet/index.ts';
import type { Clock } from '../plugin/index.ts';

/** Options of {@link ReportedLoads}. */
export interface ReportedLoadsOptions {
  readonly fleet: Fleet;
  /** Whether engines are asked now. */
  readonly wanted: () => boolean;
  /** What an engine at a base url reports; null = nothing. A rejection counts as that. */
  readonly ask: (url: string, signal: AbortSignal) => Promise<ReportedLoad | null>;
  readonly clock: Clock;
  /** An answer later than this is none, ms; default 2,000. */
  readonly timeoutMs?: number;
}

/** The newest report of each worker. */
export class ReportedLoads {
  readonly #options: ReportedLoadsOptions;
  readonly #reports = new Map<bigint, { readonly load: ReportedLoad; readonly atMs: number }>();
  readonly #asking = new Map<bigint, AbortController>();
  readonly #unlisten: () => void;

  constructor(options: ReportedLoadsOptions) {
    this.#options = options;
    this.#unlisten = options.fleet.listen({ removed: ({ spec }) => this.#forget(spec.id) });
  }

  /** The probe, followed by the question; health does not wait for its answer. */
  around(probe: Probe): Probe {
    return async (worker, context) => {
      const result = await probe(worker, context);
      if (!result.healthy || !this.#options.wanted()) this.#forget(worker.spec.id);
      else if (!this.#asking.has(worker.spec.id)) void this.#ask(worker);
      return result;
    };
  }

  /** What a worker reported last, and how long ago, ms; null = nothing. */
  of(id: bigint): { readonly load: ReportedLoad; readonly ageMs: number } | null {
    const report = this.#reports.get(id);
    return report === undefined
      ? null
      : { load: report.load, ageMs: this.#options.clock.now() - report.atMs };
  }

  /** Ends what is asked now. */
  close(): void {
    this.#unlisten();
    for (const id of [...this.#asking.keys()]) this.#forget(id);
  }

  #forget(id: bigint): void {
    this.#reports.delete(id);
    this.#asking.get(id)?.abort();
    this.#asking.delete(id);
  }

  /** Never rejects. */
  async #ask({ spec: { id, url } }: Worker): Promise<void> {
    const { ask, clock, timeoutMs = 2000 } = this.#options;
    const asking = new AbortController();
    this.#asking.set(id, asking);
    const cancelTimeout = clock.schedule(timeoutMs, () => asking.abort());
    let load: ReportedLoad | null = null;
    try {
      load = await ask(url, asking.signal);
    } catch {
      // Said nothing.
    }
    cancelTimeout();
    // Forgotten meanwhile, or another process answers there by now.
    if (this.#asking.get(id) !== asking) return;
    this.#asking.delete(id);
    if (load === null || asking.signal.aborted) this.#reports.delete(id);
    else this.#reports.set(id, { load, atMs: clock.now() });
  }
}
