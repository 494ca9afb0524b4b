// What scheduling finds out because a policy declared it: blocks in flight, phases of bookings, lengths of answers. Where no role asks,
// nothing here is computed and no time is read.
import type { Fleet } from '../fleet/index.ts';
import type { OwnerSlot } from '../kv/index.ts';
import { rankBlocks } from './busy-workers.ts';
import { OutputLengths } from './output-lengths.ts';
import { tracksPrefillTokens } from './placement-overrides.ts';
import { blocksOf } from './selection-facts.ts';
import type { SlotLoads } from './slot-loads.ts';
import { LinkTimes } from './timing/link-times.ts';
import { WorkerTimings } from './timing/worker-timings.ts';
import type { PlacementRequest, PlacementTable } from './types.ts';
import { WorkingSets } from './working-sets.ts';

/** Tokens of an answer from which the time between them is taken. */
const LEAST_OUTPUT = 8;

/** The facts of one scheduler. */
export class DeclaredFacts {
  readonly #loads: SlotLoads;
  readonly #now: () => number;
  readonly #outputLengths = new OutputLengths();
  readonly timings: WorkerTimings;
  readonly #workingSets: WorkingSets;
  /** How long copies take. */
  readonly links: LinkTimes;

  /** @param now ms of the clock. */
  constructor(fleet: Fleet, loads: SlotLoads, now: () => number) {
    this.timings = new WorkerTimings(fleet);
    this.#workingSets = new WorkingSets((slot, blockSize) => {
      const worker = fleet.workerOfSlot(slot);
      const blocks = worker === null ? null : rankBlocks(worker, blockSize);
      return blocks === null ? null : blocks * blockSize;
    });
    this.links = new LinkTimes(now, ({ workerId }) => fleet.worker(workerId)?.spec.model ?? null);
    this.#loads = loads;
    this.#now = now;
  }

  /** Fills the columns that the request's role declared; `loads.measure` must have been called for its prompt. */
  fill(table: PlacementTable, request: PlacementRequest): void {
    const { count, slots } = table;
    const { partition, runtime } = request;
    const { needs } = runtime;
    if (needs.inFlight) {
      // What must not count on the cache does not count on what others compute either.
      const blocks = request.overrides?.overlapCredit === false ? 0 : blocksOf(request);
      this.#loads.fillHeldBlocks(table.inFlightBlocks, slots, count, blocks);
    }
    if (needs.phases) this.#loads.phases.fill(table, slots, count, this.#now());
    if (needs.cachePressure) this.#workingSets.fill(table.cachePressure, slots, count, this.#now());
    if (needs.timing) {
      this.timings.fill(table.timingKind, slots, count);
      table.timings = this.timings.timings;
    }
    if (needs.copies) table.copyLink = this.links.overall(request.partition.model);
    if (needs.outputLength) table.averageOutputTokens = this.#outputLengths.meanOf(partition);
  }

  /**
   * Prompt tokens that a row has to compute no more, or not again: cached there, or in flight where the role counts on that.
   * May be more than the prompt.
   */
  cachedTokens(table: PlacementTable, row: number, { runtime, blockSize }: PlacementRequest): number {
    const cached = table.cachedTokens[row] ?? 0;
    if (!runtime.needs.inFlight) return cached;
    return Math.max(cached, (table.inFlightBlocks[row] ?? 0) * blockSize);
  }

  /** A booking was made. @param uncachedTokens prompt tokens to compute, ≥ 0. */
  booked(attempt: number, slot: OwnerSlot, request: PlacementRequest, uncachedTokens: number): void {
    const { blockSize, hashes, partition, promptTokens, runtime } = request;
    const { cachePressure, outputLength, phases, timing } = runtime.needs;
    if (cachePressure && hashes !== null)
      this.#workingSets.use(slot, hashes.sequence, blockSize, this.#now());
    if (!phases && !outputLength && !timing) return;
    const uncached = Math.min(promptTokens, uncachedTokens);
    const learns = { outputLength, timing, prefill: timing && tracksPrefillTokens(request) };
    this.#loads.follow(attempt, { partition, promptTokens, learns }, uncached, this.#now());
  }

  /** The worker of a slot is not there any more: its bookings end, and what it had used is gone. */
  left(slot: OwnerSlot): void {
    this.#loads.freeSlot(slot);
    this.#workingSets.forget(slot);
  }

  /** The engine of slots is another run of it, which holds nothing yet. */
  restarted(slots: readonly OwnerSlot[]): void {
    for (const slot of slots) this.#workingSets.forget(slot);
  }

  /** A booked worker copies blocks, and has so many tokens of the prompt then. */
  copyBegun(attempt: number, cachedTokens: number): void {
    const phase = this.#loads.phaseOf(attempt);
    if (phase !== null) this.#loads.phases.copies(phase, cachedTokens);
  }

  /** Nothing comes of the copy; repeating changes nothing, nor does it once the booking ended. */
  copyFailed(attempt: number): void {
    const phase = this.#loads.phaseOf(attempt);
    if (phase !== null) this.#loads.phases.copyFailed(phase);
  }

  /** The first token of a booking is out; repeating changes nothing. */
  firstToken(attempt: number): void {
    const phase = this.#loads.phaseOf(attempt);
    if (phase === null || phase.firstTokenAt !== null) return;
    const now = this.#now();
    const { phases } = this.#loads;
    const period = phases.firstToken(phase, now);
    phase.neighbours = phases.promptTokensOn(phase.slot);
    if (period !== null && phase.learns.timing) this.timings.prefilled(phase.slot, period);
  }

  /** The answer of a booking is complete; call before it ends. */
  answered(attempt: number, outputTokens: number): void {
    const phase = this.#loads.phaseOf(attempt);
    if (phase === null) return;
    const { firstTokenAt, learns, slot } = phase;
    if (learns.outputLength) this.#outputLengths.finished(phase.partition, outputTokens);
    if (!learns.timing || firstTokenAt === null || outputTokens < LEAST_OUTPUT) return;
    const booked = (phase.neighbours + this.#loads.phases.promptTokensOn(slot)) / 2;
    this.timings.decoded(slot, (this.#now() - firstTokenAt) / (outputTokens - 1), booked);
  }
}
