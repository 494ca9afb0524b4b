// How much each worker has computed that its KV events should have told of: the one way to notice that a connected event stream
// is silent although it should not be.
import type { Fleet } from '../fleet/index.ts';
import type { WorkerId } from '../plugin/index.ts';

/** Requests per worker for which it computed whole prompt blocks. Holds one number per worker of the fleet. */
export class UnheardBlocks {
  readonly #requests = new Map<bigint, number>();

  constructor(fleet: Fleet) {
    fleet.listen({ removed: (worker) => this.#requests.delete(worker.spec.id) });
  }

  /** A worker answered a prompt of which it computed `blocks` whole blocks; below two it may only have recomputed the last one. */
  computed(id: WorkerId, blocks: number): void {
    if (blocks >= 2) this.#requests.set(id, this.of(id) + 1);
  }

  /** Such requests of a worker so far. */
  of(id: WorkerId): number {
    return this.#requests.get(id) ?? 0;
  }
}
