// A lineage that is written down: paths by session and worker.
import type {
  HintPolicyDefinition,
  LineageNodeId,
  SessionFrontier,
  SessionLineage,
  WorkerRank,
} from '../plugin/index.ts';

/** Sessions with their paths on workers; every query answers from these lists. */
export class WrittenLineage implements SessionLineage {
  readonly #paths = new Map<string, Map<string, readonly BigUint64Array[]>>();

  set(sessionId: string, worker: WorkerRank, ...paths: readonly (readonly bigint[])[]): this {
    const workers = this.#paths.get(sessionId) ?? new Map<string, readonly BigUint64Array[]>();
    workers.set(
      key(worker),
      paths.map((path) => BigUint64Array.from(path)),
    );
    this.#paths.set(sessionId, workers);
    return this;
  }

  forget(sessionId: string): void {
    this.#paths.delete(sessionId);
  }

  nodeOf(): LineageNodeId | null {
    return null;
  }

  node(): null {
    return null;
  }

  /** One per worker; its node is known to no other query. */
  frontiers(sessionId: string): readonly SessionFrontier[] {
    return [...(this.#paths.get(sessionId)?.keys() ?? [])].map((name) => {
      const [id = '', rank] = name.split(' ');
      return { worker: { workerId: BigInt(id), rank: Number(rank) }, node: 0 };
    });
  }

  paths(sessionId: string, worker: WorkerRank): readonly BigUint64Array[] {
    return this.#paths.get(sessionId)?.get(key(worker)) ?? [];
  }

  uniqueBlocks(sessionId: string, worker: WorkerRank): BigUint64Array {
    return BigUint64Array.from(new Set(this.paths(sessionId, worker).flatMap((path) => [...path])));
  }

  exclusiveBlocks(sessionId: string, worker: WorkerRank): BigUint64Array {
    const others = new Set(
      [...this.#paths.keys()]
        .filter((other) => other !== sessionId)
        .flatMap((other) => [...this.uniqueBlocks(other, worker)]),
    );
    return this.uniqueBlocks(sessionId, worker).filter((hash) => !others.has(hash));
  }
}

function key({ rank, workerId }: WorkerRank): string {
  return `${workerId} ${rank}`;
}

/** Hashes first, first + 1, …. */
export function hashes(first: number, count: number): bigint[] {
  return Array.from({ length: count }, (_, index) => BigInt(first + index));
}

/** A policy with what it counts, in order. */
export function counting(policy: HintPolicyDefinition) {
  const counts: (readonly [name: string, by: number, label: string])[] = [];
  const count = (name: string, by = 1, label = ''): void => {
    counts.push([name, by, label]);
  };
  const definition: HintPolicyDefinition = {
    ...policy,
    create: (context) =>
      policy.create({ ...context, metrics: { ...context.metrics, count, gauge: () => {} } }),
  };
  return { counts, definition };
}
