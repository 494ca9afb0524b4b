// What engines say of their own load, laid over what the router has booked: of each figure the larger of the two, where the report is
// fresh. Neither ever replaces the other: the report lags behind, and the booking knows this router's requests only.
import type { Worker } from '../fleet/index.ts';
import type { OwnerSlot } from '../kv/index.ts';
import type { CandidateColumns } from './candidate-table.ts';

/** Reports older than this count no more, ms: three checks of a worker in good health. */
export const FRESH_MS = 15_000;

/** What a worker reports, over all its ranks; null members are not reported. */
export interface EngineLoad {
  /** Requests that run or wait. */
  readonly requests: number | null;
  /** Share of the KV cache in use, 0 to 1. */
  readonly kvUsage: number | null;
}

/** Columns that a report is laid over; `count` rows. */
type BlendedColumns = Pick<
  CandidateColumns,
  'count' | 'slots' | 'activeRequests' | 'activeDecodeBlocks' | 'additionalBlocks' | 'decodeCostBlocks'
>;

/** The newest report of each slot. */
export class EngineLoads {
  /** Whether reports are laid over bookings; a field, as every decision reads it. */
  blends = false;
  #requests = new Float64Array(0);
  #blocks = new Float64Array(0);
  #atMs = new Float64Array(0);

  /**
   * Takes a worker's report; null = it says nothing any more. Requests of a worker with several ranks are taken as spread evenly.
   * @param rankBlocks KV blocks of one rank; null = not known, then blocks are not blended.
   */
  report(worker: Worker, load: EngineLoad | null, rankBlocks: number | null, nowMs: number): void {
    const { slots } = worker;
    for (const slot of slots) {
      this.forget(slot);
      if (load === null) continue;
      this.#makeRoom(slot);
      this.#requests[slot] = (load.requests ?? 0) / slots.length;
      this.#blocks[slot] = (load.kvUsage ?? 0) * (rankBlocks ?? 0);
      this.#atMs[slot] = nowMs;
    }
  }

  /** What a slot's engine said counts no more. */
  forget(slot: OwnerSlot): void {
    if (slot < this.#atMs.length) this.#atMs[slot] = Number.NEGATIVE_INFINITY;
  }

  /** Lays the reports over the columns of a decision. */
  blend(table: BlendedColumns, nowMs: number): void {
    const { count, slots, activeRequests, activeDecodeBlocks, additionalBlocks, decodeCostBlocks } = table;
    const known = this.#atMs.length;
    for (let row = 0; row < count; row += 1) {
      const slot = slots[row]!;
      if (slot >= known || nowMs - this.#atMs[slot]! > FRESH_MS) continue;
      activeRequests[row] = Math.max(activeRequests[row]!, this.#requests[slot]!);
      const held = Math.max(activeDecodeBlocks[row]!, this.#blocks[slot]!);
      activeDecodeBlocks[row] = held;
      decodeCostBlocks[row] = held + additionalBlocks[row]!;
    }
  }

  #makeRoom(slot: OwnerSlot): void {
    const before = this.#atMs.length;
    if (slot < before) return;
    const grown = (column: Float64Array) => {
      const larger = new Float64Array(2 * (slot + 1));
      larger.set(column);
      return larger;
    };
    this.#requests = grown(this.#requests);
    this.#blocks = grown(this.#blocks);
    this.#atMs = grown(this.#atMs).fill(Number.NEGATIVE_INFINITY, before);
  }
}
