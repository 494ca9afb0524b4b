// Dense numbers for (worker, rank) pairs. Everything per rank (loads, blocks) lives in columns indexed by these slots, so a
// slot stays small and is given out again once its worker is gone.
import type { OwnerSlot } from '../kv/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import type { Worker } from './types.ts';

/** Which (worker, rank) each slot stands for. Lookups allocate nothing. */
export class SlotTable {
  readonly #limit: number;
  readonly #workers: (Worker | null)[] = [];
  readonly #ranks: number[] = [];
  /** Freed slots, the lowest last, so that reuse keeps the columns short. */
  readonly #free: OwnerSlot[] = [];

  /** @param limit most slots in use at once. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** One more than the highest slot ever given out: the length that columns need. */
  get capacity(): number {
    return this.#workers.length;
  }

  /**
   * Gives each rank of `worker` a slot.
   * @throws PointsmanError PM_FLEET_FULL when there are not enough; then none is taken.
   */
  take(worker: Worker, firstRank: number, count: number): OwnerSlot[] {
    const used = this.#workers.length - this.#free.length;
    if (used + count > this.#limit) {
      throw new PointsmanError(
        'PM_FLEET_FULL',
        `worker ${worker.spec.id} has ${count} ranks, but only ${this.#limit - used} of the fleet's ${this.#limit} slots are free; remove workers first`,
        { details: { limit: this.#limit, used, asked: count } },
      );
    }
    const slots: OwnerSlot[] = [];
    for (let offset = 0; offset < count; offset += 1) {
      const slot = this.#free.pop() ?? this.#workers.length;
      this.#workers[slot] = worker;
      this.#ranks[slot] = firstRank + offset;
      slots.push(slot);
    }
    return slots;
  }

  /** Gives slots back. */
  release(slots: readonly OwnerSlot[]): void {
    for (const slot of slots) {
      this.#workers[slot] = null;
      this.#ranks[slot] = -1;
      this.#free.push(slot);
    }
    this.#free.sort((a, b) => b - a);
  }

  /** Worker of a slot; null when the slot is free or was never given out. */
  workerOf(slot: OwnerSlot): Worker | null {
    return this.#workers[slot] ?? null;
  }

  /** Rank of a slot; -1 when the slot is free or was never given out. */
  rankOf(slot: OwnerSlot): number {
    return this.#ranks[slot] ?? -1;
  }
}
