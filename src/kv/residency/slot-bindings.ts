// Which worker each owner slot belongs to.
import type { WorkerId } from '../../plugin/index.ts';

/** Owner slots by worker. */
export class SlotBindings {
  readonly #workerOf = new Map<number, WorkerId>();
  readonly #slotsOf = new Map<WorkerId, Set<number>>();

  /** Gives a slot to a worker; whether it was another worker's before. */
  bind(owner: number, worker: WorkerId): boolean {
    const before = this.#workerOf.get(owner);
    if (before === worker) return false;
    if (before !== undefined) this.#slotsOf.get(before)?.delete(owner);
    this.#workerOf.set(owner, worker);
    const slots = this.#slotsOf.get(worker);
    if (slots) slots.add(owner);
    else this.#slotsOf.set(worker, new Set([owner]));
    return before !== undefined;
  }

  /** Forgets a worker's slots and returns them. */
  release(worker: WorkerId): Iterable<number> {
    const slots = this.#slotsOf.get(worker) ?? [];
    this.#slotsOf.delete(worker);
    for (const owner of slots) this.#workerOf.delete(owner);
    return slots;
  }
}
