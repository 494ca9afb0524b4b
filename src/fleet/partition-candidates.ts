// Who may serve a model in a role, as ready-made columns in (worker id, rank) order. Rebuilt when workers come or go, not per
// request; state changes do not touch them, because eligibility is tested per decision.
import type { Role } from '../plugin/index.ts';
import type { Worker } from './types.ts';

/** The candidates of one model and role; entry i of each column is the same (worker, rank). Shared: never written to. */
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
export const NO_CANDIDATES: PartitionCandidates = columnsOf([]);

/** Candidate columns per model and role, built on first use after a change. */
export class PartitionTable {
  readonly #workers: ReadonlyMap<bigint, Worker>;
  readonly #byModel = new Map<string, Map<Role, PartitionCandidates>>();

  /** @param workers the fleet's live map of workers; read again after each `changed`. */
  constructor(workers: ReadonlyMap<bigint, Worker>) {
    this.#workers = workers;
  }

  /** Forgets what was built for a model. */
  changed(model: string): void {
    this.#byModel.delete(model);
  }

  /** Candidates of a model and role. Nothing is kept for models without workers, so asking for any name costs no memory. */
  of(model: string, role: Role): PartitionCandidates {
    const roles = this.#byModel.get(model) ?? this.#build(model);
    return roles?.get(role) ?? NO_CANDIDATES;
  }

  #build(model: string): Map<Role, PartitionCandidates> | null {
    const workers = [...this.#workers.values()].filter((worker) => worker.spec.model === model);
    if (workers.length === 0) return null;
    workers.sort((a, b) => (a.spec.id < b.spec.id ? -1 : 1));
    const roles = new Map<Role, PartitionCandidates>();
    for (const role of new Set(workers.map((worker) => worker.spec.role))) {
      roles.set(role, columnsOf(workers.filter((worker) => worker.spec.role === role)));
    }
    this.#byModel.set(model, roles);
    return roles;
  }
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
