// What engines say of their own load, asked with each health check that succeeds. It stands beside what the router has booked:
// the one lags behind, the other knows this router's requests only. Whether it counts in decisions is scheduling's to say.
import type { ReportedLoad } from '../engines/index.ts';
import type { BlockSizes, Fleet, Probe, Worker } from '../fleet/index.ts';
import type { Clock } from '../plugin/index.ts';
import { type EngineLoad, type EngineLoads, rankBlocks } from '../scheduling/index.ts';

/** Options of {@link ReportedLoads}. */
export interface ReportedLoadsOptions {
  readonly fleet: Fleet;
  /** Whether engines are asked now. */
  readonly wanted: () => boolean;
  /** What an engine at a base url reports; null = nothing. A rejection counts as that. */
  readonly ask: (worker: Worker, signal: AbortSignal) => Promise<ReportedLoad | null>;
  /** Told of each report, and (null) when there is none any more. */
  readonly heard?: (worker: Worker, load: ReportedLoad | null) => void;
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
      if (!result.healthy || !this.#options.wanted()) this.#withdraw(worker);
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

  #withdraw(worker: Worker): void {
    this.#forget(worker.spec.id);
    this.#options.heard?.(worker, null);
  }

  #forget(id: bigint): void {
    this.#reports.delete(id);
    this.#asking.get(id)?.abort();
    this.#asking.delete(id);
  }

  /** Never rejects. */
  async #ask(worker: Worker): Promise<void> {
    const { id } = worker.spec;
    const { ask, clock, timeoutMs = 2000 } = this.#options;
    const asking = new AbortController();
    this.#asking.set(id, asking);
    const cancelTimeout = clock.schedule(timeoutMs, () => asking.abort());
    let load: ReportedLoad | null = null;
    try {
      load = await ask(worker, asking.signal);
    } catch {
      // Said nothing.
    }
    cancelTimeout();
    // Forgotten meanwhile, or another process answers there by now.
    if (this.#asking.get(id) !== asking) return;
    this.#asking.delete(id);
    const said = asking.signal.aborted ? null : load;
    if (said === null) this.#reports.delete(id);
    else this.#reports.set(id, { load: said, atMs: clock.now() });
    this.#options.heard?.(worker, said);
  }
}

/** Hands reports on to scheduling, in its terms. */
export function reportsInto(
  loads: EngineLoads,
  blockSizes: BlockSizes,
  clock: Clock,
): NonNullable<ReportedLoadsOptions['heard']> {
  return (worker, load) => {
    const blocks = rankBlocks(worker, blockSizes.ofModel(worker.spec.model));
    loads.report(worker, load && engineLoad(load), blocks, clock.now());
  };
}

function engineLoad({ running, waiting, kvUsage }: ReportedLoad): EngineLoad {
  return { requests: running === null && waiting === null ? null : (running ?? 0) + (waiting ?? 0), kvUsage };
}
