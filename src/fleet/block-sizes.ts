// Tokens per KV block of each model: configured, else advertised by a worker, else learned from the first BlockStored.
import type { OwnerSlot } from '../kv/index.ts';
import type { WorkerId } from '../plugin/index.ts';
import type { Fleet } from './fleet.ts';
import type { Worker } from './types.ts';

interface Learned {
  readonly blockSize: number;
  /** Who said so; what it said holds until it is gone or restarts, as it may then have been set up anew. */
  readonly from: WorkerId;
}

/** Answers block sizes. Learned sizes are kept per model that has a worker, so their number is bounded by the fleet. */
export class BlockSizes {
  readonly #fleet: Fleet;
  readonly #configured: (model: string) => number | null;
  readonly #learned = new Map<string, Learned>();

  /** @param configured block size of a model's configuration, null when it gives none. */
  constructor(fleet: Fleet, configured: (model: string) => number | null) {
    this.#fleet = fleet;
    this.#configured = configured;
    const forget = (worker: Worker): void => this.#forget(worker);
    fleet.listen({
      removed: forget,
      restarted: forget,
      stateChanged: (worker) => {
        if (worker.state === 'gone') forget(worker);
      },
    });
  }

  /** Tokens per block of a model; null = not known yet. */
  ofModel(model: string): number | null {
    return this.#configured(model) ?? this.#learned.get(model)?.blockSize ?? this.#advertised(model);
  }

  /** Tokens per block of the model that a slot serves; null = not known yet, or a free slot. */
  ofSlot(slot: OwnerSlot): number | null {
    const worker = this.#fleet.workerOfSlot(slot);
    return worker === null ? null : this.ofModel(worker.spec.model);
  }

  /** A worker stored blocks of this size; the first word on a model counts. */
  learn(slot: OwnerSlot, blockSize: number): void {
    const worker = this.#fleet.workerOfSlot(slot);
    if (worker !== null && !this.#learned.has(worker.spec.model))
      this.#learned.set(worker.spec.model, { blockSize, from: worker.spec.id });
  }

  /** The engine behind a slot started anew, as its event stream shows. */
  restarted(slot: OwnerSlot): void {
    const worker = this.#fleet.workerOfSlot(slot);
    if (worker !== null) this.#forget(worker);
  }

  #forget({ spec }: Worker): void {
    if (this.#learned.get(spec.model)?.from === spec.id) this.#learned.delete(spec.model);
  }

  #advertised(model: string): number | null {
    for (const { spec, state, capabilities } of this.#fleet.workers()) {
      if (spec.model !== model || capabilities === null || state === 'gone') continue;
      this.#learned.set(model, { blockSize: capabilities.blockSize, from: spec.id });
      return capabilities.blockSize;
    }
    return null;
  }
}
