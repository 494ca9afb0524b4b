// Tokens per KV block of each model: configured, else advertised by a worker, else learned from the first BlockStored.
import type { OwnerSlot } from '../kv/index.ts';
import type { Fleet } from './fleet.ts';

/** Answers block sizes. Learned sizes are kept per model that has a worker, so their number is bounded by the fleet. */
export class BlockSizes {
  readonly #fleet: Fleet;
  readonly #configured: (model: string) => number | null;
  readonly #learned = new Map<string, number>();

  /** @param configured block size of a model's configuration, null when it gives none. */
  constructor(fleet: Fleet, configured: (model: string) => number | null) {
    this.#fleet = fleet;
    this.#configured = configured;
  }

  /** Tokens per block of a model; null = not known yet. */
  ofModel(model: string): number | null {
    return this.#configured(model) ?? this.#learned.get(model) ?? this.#advertised(model);
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
      this.#learned.set(worker.spec.model, blockSize);
  }

  #advertised(model: string): number | null {
    for (const worker of this.#fleet.workers()) {
      if (worker.spec.model !== model || worker.capabilities === null) continue;
      this.#learned.set(model, worker.capabilities.blockSize);
      return worker.capabilities.blockSize;
    }
    return null;
  }
}
