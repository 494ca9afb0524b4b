// Tokens per KV block of each partition, and whether blocks reach one token further (EAGLE): configured for the model, else registered
// or advertised or described by a worker (sizes only), else learned from the first BlockStored.
import type { OwnerSlot } from '../kv/index.ts';
import type { WorkerId } from '../plugin/index.ts';
import { saidBlockSize } from './engine-description.ts';
import type { Fleet } from './fleet.ts';
import type { Worker, WorkerSpec } from './types.ts';

interface Learned<T> {
  readonly value: T;
  /** Who said so; what it said holds until it is gone or restarts, as it may then have been set up anew. */
  readonly from: WorkerId;
}

/** By model and routing group; two maps, so that a look-up makes no key. */
class ByPartition<T> {
  readonly #groups = new Map<string, Map<string, Learned<T>>>();

  get(model: string, group: string): Learned<T> | undefined {
    return this.#groups.get(model)?.get(group);
  }

  set(model: string, group: string, learned: Learned<T>): void {
    const groups = this.#groups.get(model);
    if (groups === undefined) this.#groups.set(model, new Map([[group, learned]]));
    else groups.set(group, learned);
  }

  /** Forgets what a worker said. */
  forget(model: string, group: string, from: WorkerId): void {
    const groups = this.#groups.get(model);
    if (groups?.get(group)?.from !== from) return;
    groups.delete(group);
    if (groups.size === 0) this.#groups.delete(model);
  }
}

/** Answers block sizes. Learned sizes are kept per partition that has a worker, so their number is bounded by the fleet. */
export class BlockSizes {
  readonly #fleet: Fleet;
  readonly #configured: (model: string) => number | null;
  readonly #configuredPairs: (model: string) => boolean | null;
  readonly #learned = new ByPartition<number>();
  readonly #learnedPairs = new ByPartition<boolean>();

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
      added: ({ spec }) => this.#learnRegistered(spec),
      removed: (worker) => {
        forget(worker);
        for (const { spec } of fleet.workers()) this.#learnRegistered(spec);
      },
      restarted: forget,
      stateChanged: (worker) => {
        if (worker.state === 'gone') forget(worker);
      },
    });
  }

  /** Tokens per block of a model; null = not known yet. @param group one of its routing groups; default: the one its configuration names. */
  ofModel(model: string, group: string = this.#fleet.groupOfModel(model)): number | null {
    return (
      this.#configured(model) ?? this.#learned.get(model, group)?.value ?? this.#advertised(model, group)
    );
  }

  /** Tokens per block of the model that a slot serves; null = not known yet, or a free slot. */
  ofSlot(slot: OwnerSlot): number | null {
    const worker = this.#fleet.workerOfSlot(slot);
    return worker === null ? null : this.ofModel(worker.spec.model, this.#fleet.groupOf(worker.spec));
  }

  /** A worker stored blocks of this size; the first word on a model counts. */
  learn(slot: OwnerSlot, blockSize: number): void {
    this.#learn(this.#learned, slot, blockSize);
  }

  /** Whether a model's blocks reach one token further than they step (EAGLE); null = not known yet. @param group as of `ofModel`. */
  pairsOfModel(model: string, group: string = this.#fleet.groupOfModel(model)): boolean | null {
    return this.#configuredPairs(model) ?? this.#learnedPairs.get(model, group)?.value ?? null;
  }

  /** As `pairsOfModel`, for the model that a slot serves; null for a free slot too. */
  pairsOfSlot(slot: OwnerSlot): boolean | null {
    const worker = this.#fleet.workerOfSlot(slot);
    return worker === null ? null : this.pairsOfModel(worker.spec.model, this.#fleet.groupOf(worker.spec));
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

  #learn<T>(learned: ByPartition<T>, slot: OwnerSlot, value: T): void {
    const worker = this.#fleet.workerOfSlot(slot);
    if (worker !== null) this.#note(learned, worker.spec, value);
  }

  #note<T>(learned: ByPartition<T>, spec: WorkerSpec, value: T): void {
    const group = this.#fleet.groupOf(spec);
    if (learned.get(spec.model, group) === undefined)
      learned.set(spec.model, group, { value, from: spec.id });
  }

  #learnRegistered(spec: WorkerSpec): void {
    if (spec.blockSize != null) this.#note(this.#learned, spec, spec.blockSize);
    if (spec.eagle != null) this.#note(this.#learnedPairs, spec, spec.eagle);
  }

  #forget({ spec }: Worker): void {
    const group = this.#fleet.groupOf(spec);
    this.#learned.forget(spec.model, group, spec.id);
    this.#learnedPairs.forget(spec.model, group, spec.id);
    // What was registered holds for the engine's next life as well.
    if (this.#fleet.worker(spec.id) !== null) this.#learnRegistered(spec);
  }

  #advertised(model: string, group: string): number | null {
    for (const worker of this.#fleet.workers()) {
      const { spec, state } = worker;
      const blockSize = saidBlockSize(worker);
      if (spec.model !== model || blockSize === null || state === 'gone') continue;
      if (this.#fleet.groupOf(spec) !== group) continue;
      this.#learned.set(model, group, { value: blockSize, from: spec.id });
      return blockSize;
    }
    return null;
  }
}
