// Which models are served by workers of two kinds, and whether prompts can be sent to a prefill worker now. Kept as workers come, go and
// change, so that a request asks for nothing but a word.
import type { Fleet, Worker } from '../../fleet/index.ts';

/** `pending`: no prefill worker was ready yet. `active`: one is. `unavailable`: none is any more. */
export type PrefillRouterState = 'pending' | 'active' | 'unavailable';

interface ModelWorkers {
  state: PrefillRouterState;
  aggregated: number;
  prefill: number;
  decode: number;
  readyDecode: number;
}

/** The prefill routers of a fleet's models. */
export class PrefillRouters {
  readonly #fleet: Fleet;
  readonly #models = new Map<string, ModelWorkers>();

  constructor(fleet: Fleet) {
    this.#fleet = fleet;
    const look = (worker: Worker): void => {
      if (worker.spec.registered !== true) this.#look(worker.spec.model);
    };
    for (const worker of fleet.workers()) look(worker);
    fleet.listen({ added: look, stateChanged: look, removed: look });
  }

  /**
   * Whether a model's requests are served by two workers: it has decode workers, or prefill workers and none that serves whole requests,
   * in whatever state. Workers that serve whole requests get none beside decode workers.
   */
  divides(model: string): boolean {
    const found = this.#models.get(model);
    return found !== undefined && (found.decode > 0 || found.aggregated === 0);
  }

  stateOf(model: string): PrefillRouterState {
    return this.#models.get(model)?.state ?? 'pending';
  }

  /** Whether all workers of a model are gone, of whatever kind; also when there are none. */
  isDeserted(model: string): boolean {
    return this.#fleet
      .workers()
      .every(({ spec, state }) => spec.model !== model || spec.registered === true || state === 'gone');
  }

  /** Whether a decode worker is ready. */
  decodes(model: string): boolean {
    return (this.#models.get(model)?.readyDecode ?? 0) > 0;
  }

  #look(model: string): void {
    const before = this.#models.get(model)?.state ?? 'pending';
    const found: ModelWorkers = { state: before, aggregated: 0, prefill: 0, decode: 0, readyDecode: 0 };
    let readyPrefill = 0;
    for (const worker of this.#fleet.workers()) {
      const { spec, state } = worker;
      // Whoever registered a worker sends requests to it, and chooses among the kinds as well.
      if (spec.model !== model || spec.registered === true) continue;
      const ready = state === 'ready' ? 1 : 0;
      if (spec.role === 'aggregated') found.aggregated += 1;
      else if (spec.role === 'prefill') {
        found.prefill += 1;
        readyPrefill += ready;
      } else if (spec.role === 'decode') {
        found.decode += 1;
        found.readyDecode += ready;
      }
    }
    if (readyPrefill > 0) found.state = 'active';
    else if (before === 'active') found.state = 'unavailable';
    // A model whose workers are all gone is as one that never had any.
    if (found.prefill + found.decode === 0) this.#models.delete(model);
    else this.#models.set(model, found);
  }
}
