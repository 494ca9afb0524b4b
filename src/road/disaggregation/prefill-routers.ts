// Which models are served by workers of two kinds, and whether prompts can be sent to a prefill worker now. Kept as workers come, go and
// change, so that a request asks for nothing but a word.
import type { Fleet, Worker } from '../../fleet/index.ts';

/** `pending`: no prefill worker was ready yet. `active`: one is. `unavailable`: none is any more. */
export type PrefillRouterState = 'pending' | 'active' | 'unavailable';

interface ModelWorkers {
  state: PrefillRouterState;
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
      if (divides(worker)) this.#look(worker.spec.model);
    };
    for (const worker of fleet.workers()) look(worker);
    fleet.listen({ added: look, stateChanged: look, removed: look });
  }

  /** Whether a model has prefill or decode workers, in whatever state. */
  divides(model: string): boolean {
    return this.#models.has(model);
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
    const found: ModelWorkers = { state: before, prefill: 0, decode: 0, readyDecode: 0 };
    let readyPrefill = 0;
    for (const worker of this.#fleet.workers()) {
      const { spec, state } = worker;
      if (spec.model !== model || !divides(worker)) continue;
      const ready = state === 'ready' ? 1 : 0;
      if (spec.role === 'prefill') {
        found.prefill += 1;
        readyPrefill += ready;
      } else {
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

/** Whoever registered a worker sends requests to it, and chooses among the two kinds as well. */
function divides({ spec }: Worker): boolean {
  return (spec.role === 'prefill' || spec.role === 'decode') && spec.registered !== true;
}
