// Tokens per KV block of each model, and whether blocks reach one token further (EAGLE): configured, else advertised by a worker
// (sizes only), else learned from the first BlockStored.
import type { OwnerSlot } from '../kv/index.ts';
import type { WorkerId } from '../plugin/index.ts';
import type { Fleet } from './fleet.ts';
import type { Worker } from './types.ts';

interface Learned<T> {
  readonly value: T;
  /** Who said so; what it said holds until it is gone or restarts, as it may then have been set up anew. */
  readonly from: WorkerId;
}

/** Answers block sizes. Learned sizes are kept per model that has a worker, so their number is bounded by the fleet. */
export class BlockSizes {
  readonly #fleet: Fleet;
  readonly #configured: (model: string) => number | null;
  readonly #configuredPairs: (model: string) => boolean | null;
  readonly #learned = new Map<string, Learned<number>>();
  readonly #learnedPairs = new Map<string, Learned<boolean>>();

  /**
   * @param configured block size of a model's configuration, null when it gives none.
   * @param configuredPairs whether a model's engines hash pairs of tokens, null when its configuration does not say.
   */
  constructor(
    fleet: Fleet,
    configured: (model: string) => number | null,
    configuredPairs: (model: string) => boolean | null = () => null,
  ) {
    this.#fleet = fleet;
    this.#configured = configured;
    this.#configuredPairs = configuredPairs;
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
    return this.#configured(model) ?? this.#learned.get(model)?.value ?? this.#advertised(model);
  }

  /** Tokens per block of the model that a slot serves; null = not known yet, or a free slot. */
  ofSlot(slot: OwnerSlot): number | null {
    const worker = this.#fleet.workerOfSlot(slot);
    return worker === null ? null : this.ofModel(worker.spec.model);
  }

  /** A worker stored blocks of this size; the first word on a model counts. */
  learn(slot: OwnerSlot, blockSize: number): void {
    this.#learn(this.#learned, slot, blockSize);
  }

  /** Whether a model's blocks reach one token further than they step (EAGLE); null = not known yet. */
  pairsOfModel(model: string): boolean | null {
    return this.#configuredPairs(model) ?? this.#learnedPairs.get(model)?.value ?? null;
  }

  /** As `pairsOfModel`, for the model that a slot serves; null for a free slot too. */
  pairsOfSlot(slot: OwnerSlot): boolean | null {
    const worker = this.#fleet.workerOfSlot(slot);
    return worker === null ? null : this.pairsOfModel(worker.spec.model);
  }

  /** A worker stored blocks of pairs, or plain ones; the first word on a model counts. */
  learnPairs(slot: OwnerSlot, pairs: boolean): void {
    this.#learn(this.#learnedPairs, slot, pairs);
  }

  /** The engine behind a slot started anew, as its event stream shows. */
  restarted(slot: OwnerSlot): void {
    const worker = this.#fleet.workerOfSlot(slot);
    if (worker !== null) this.#forget(worker);
  }

  #learn<T>(learned: Map<string, Learned<T>>, slot: OwnerSlot, value: T): void {
    const worker = this.#fleet.workerOfSlot(slot);
    if (worker !== null && !learned.has(worker.spec.model)) {
      learned.set(worker.spec.model, { value, from: worker.spec.id });
    }
  }

  #forget({ spec }: Worker): void {
    if (this.#learned.get(spec.model)?.from === spec.id) this.#learned.delete(spec.model);
    if (this.#learnedPairs.get(spec.model)?.from === spec.id) this.#learnedPairs.delete(spec.model);
  }

  #advertised(model: string): number | null {
    for (const { spec, state, capabilities } of this.#fleet.workers()) {
      if (spec.model !== model || capabilities === null || state === 'gone') continue;
      this.#learned.set(model, { value: capabilities.blockSize, from: spec.id });
      return capabilities.blockSize;
    }
    return null;
  }
}
