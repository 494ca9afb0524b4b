// Who may serve a partition in a role, as ready-made columns in (worker id, rank) order. Rebuilt when workers come or go, not per
// request; state changes do not touch them, because eligibility is tested per decision.
import type { Partition, Role } from '../plugin/index.ts';
import type { Worker } from './types.ts';

/** The candidates of one partition and role; entry i of each column is the same (worker, rank). Shared: never written to. */
export interface PartitionCandidates {
  readonly slots: Int32Array;
  readonly workerIds: BigUint64Array;
  /** The same ids as two u32 words each, in the machine's byte order: copying them makes no bigint. */
  readonly idWords: Uint32Array;
  readonly ranks: Int32Array;
  /** 1 = the worker says that it runs on a CPU. */
  readonly onCpu: Uint8Array;
}

/** Nobody. */
const NO_CANDIDATES: PartitionCandidates = columnsOf([]);

/** The two candidate lists of a role. */
interface RoleCandidates {
  readonly own: PartitionCandidates;
  /** With those that callers registered; the same object where there are none. */
  readonly all: PartitionCandidates;
}

/** Per routing group and role. */
type ModelCandidates = ReadonlyMap<string, ReadonlyMap<Role, RoleCandidates>>;

/** Candidate columns per partition and role, built on first use after a change. */
export class PartitionTable {
  readonly #workers: ReadonlyMap<bigint, Worker>;
  readonly #groupOf: (worker: Worker) => string;
  readonly #byModel = new Map<string, ModelCandidates>();

  /**
   * @param workers the fleet's live map of workers; read again after each `changed`.
   * @param groupOf routing group of a worker.
   */
  constructor(workers: ReadonlyMap<bigint, Worker>, groupOf: (worker: Worker) => string) {
    this.#workers = workers;
    this.#groupOf = groupOf;
  }

  /** Forgets what was built for a model. */
  changed(model: string): void {
    this.#byModel.delete(model);
  }

  /** Candidates of a partition and role. Nothing is kept for models without workers, so asking for any name costs no memory. */
  of({ model, routingGroup }: Partition, role: Role, withRegistered: boolean): PartitionCandidates {
    const groups = this.#byModel.get(model) ?? this.#build(model);
    const found = groups?.get(routingGroup)?.get(role);
    if (found === undefined) return NO_CANDIDATES;
    return withRegistered ? found.all : found.own;
  }

  #build(model: string): ModelCandidates | null {
    const workers = [...this.#workers.values()].filter((worker) => worker.spec.model === model);
    if (workers.length === 0) return null;
    workers.sort((a, b) => (a.spec.id < b.spec.id ? -1 : 1));
    const groups = new Map<string, Map<Role, RoleCandidates>>();
    for (const group of new Set(workers.map((worker) => this.#groupOf(worker)))) {
      const ofGroup = workers.filter((worker) => this.#groupOf(worker) === group);
      const roles = new Map<Role, RoleCandidates>();
      for (const role of new Set(ofGroup.map((worker) => worker.spec.role))) {
        roles.set(role, bothOf(ofGroup.filter((worker) => worker.spec.role === role)));
      }
      groups.set(group, roles);
    }
    this.#byModel.set(model, groups);
    return groups;
  }
}

function bothOf(workers: readonly Worker[]): RoleCandidates {
  const all = columnsOf(workers);
  const own = workers.filter((worker) => worker.spec.registered !== true);
  return { all, own: own.length === workers.length ? all : columnsOf(own) };
}

function columnsOf(workers: readonly Worker[]): PartitionCandidates {
  const rows = workers.flatMap((worker) =>
    worker.slots.map((slot, offset) => ({
      slot,
      id: worker.spec.id,
      rank: worker.spec.ranks.first + offset,
      onCpu: worker.spec.device === 'cpu' ? 1 : 0,
    })),
  );
  const workerIds = BigUint64Array.from(rows, (row) => row.id);
  return {
    slots: Int32Array.from(rows, (row) => row.slot),
    workerIds,
    idWords: new Uint32Array(workerIds.buffer),
    ranks: Int32Array.from(rows, (row) => row.rank),
    onCpu: Uint8Array.from(rows, (row) => row.onCpu),
  };
}
