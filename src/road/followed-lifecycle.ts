// Tells the classifier of a request what its exchange goes through.
import type { EngineReport } from '../engines/index.ts';
import type { RequestLifecycle } from '../host/index.ts';
import type { ErrorCode, WorkerId, WorkerRank } from '../plugin/index.ts';

/** A lifecycle in step with its exchange. */
export class FollowedLifecycle {
  readonly #lifecycle: RequestLifecycle;
  readonly #promptTokens: number;
  #generated = 0;
  #worker: WorkerRank | null = null;

  constructor(lifecycle: RequestLifecycle, promptTokens: number) {
    this.#lifecycle = lifecycle;
    this.#promptTokens = promptTokens;
  }

  /** It is booked there, and on its way. */
  booked(workerId: WorkerId, rank: number): void {
    this.#worker = { workerId, rank };
  }

  /** It is with the engine. */
  sent(): void {
    if (this.#worker !== null) this.#lifecycle.sent(this.#worker);
  }

  /** The engine answers; so many tokens of output came with it. */
  responding(tokens: number): void {
    if (this.#worker !== null) this.#lifecycle.responding(this.#worker);
    if (tokens === 0) return;
    this.#generated += tokens;
    this.#lifecycle.progress(this.#promptTokens + this.#generated);
  }

  /** It ended: with the engine's report, or by an error; neither = the client left. */
  ended(report: EngineReport | null, error: ErrorCode | null): void {
    if (report === null) {
      this.#lifecycle.aborted(this.#worker, error);
      return;
    }
    const generated = Math.max(this.#generated, report.outputTokens ?? 0);
    this.#lifecycle.progress(this.#promptTokens + generated);
    this.#lifecycle.completed(this.#worker);
  }
}
