// Which workers are too busy for another request: loads against the thresholds of their model. A worker is busy when all its ranks
// are. Nothing is tested, and nothing measured, while no model has a threshold. Budget: no allocation per worker.
import { type BusyThresholds, NO_THRESHOLDS, testsNothing } from '../config/index.ts';
import {
  type Fleet,
  maxNumBatchedTokensOf,
  type PartitionCandidates,
  saidBlockSize,
  totalKvBlocksOf,
  type Worker,
} from '../fleet/index.ts';
import type { OwnerSlot } from '../kv/index.ts';
import { LoadDrain, type MeasuredLoads } from './load-drain.ts';
import type { SlotLoads } from './slot-loads.ts';

/** What is read of the loads. */
export type TestedLoads = MeasuredLoads & Pick<SlotLoads, 'decayPrefill' | 'prefillTokensOn'>;

/** Loads above which one rank is busy; Infinity = not tested, as there is no threshold or its capacity is not known. */
export interface RankLimits {
  readonly decodeBlocks: number;
  readonly prefillTokens: number;
}

/** One partition's limits, by the index of its candidates, and who was busy when last looked at. */
export interface BusyMarks {
  readonly decodeBlocks: Float64Array;
  readonly prefillTokens: Float64Array;
  /** Prompt tokens still to be computed, when last looked at. */
  readonly tokensLeft: Float64Array;
  /** 1 = the worker of this candidate is busy. */
  readonly busy: Uint8Array;
  /** Whether the latest look found other workers busy than the one before. */
  changed: boolean;
  fleetVersion: number;
  settings: number;
  blockSize: number;
}

/** Thresholds by model, and the workers that are over them. */
export class BusyWorkers {
  /** Whether any model has a threshold; a field, as every decision reads it. */
  active = false;
  /** How fast ranks get rid of their load; measured while a model has a threshold. */
  readonly drain: LoadDrain;
  readonly #fleet: Fleet;
  readonly #loads: TestedLoads;
  #thresholds: ReadonlyMap<string, BusyThresholds> = new Map();
  /** Counts changes of the thresholds. */
  #settings = 0;
  readonly #marks = new WeakMap<PartitionCandidates, BusyMarks>();

  constructor(fleet: Fleet, loads: TestedLoads, now: () => number) {
    this.#fleet = fleet;
    this.#loads = loads;
    this.drain = new LoadDrain(loads, now);
  }

  /** Takes the thresholds of every model; those that test nothing are left out. */
  setThresholds(byModel: ReadonlyMap<string, BusyThresholds>): void {
    this.#thresholds = new Map([...byModel].filter(([, thresholds]) => !testsNothing(thresholds)));
    this.active = this.#thresholds.size > 0;
    this.#settings += 1;
    if (!this.active) this.drain.clear();
  }

  /** Whether a model has any. */
  hasThresholds(model: string): boolean {
    return this.#thresholds.has(model);
  }

  /** Thresholds of a model. */
  thresholdsOf(model: string): BusyThresholds {
    return this.#thresholds.get(model) ?? NO_THRESHOLDS;
  }

  /** Looks at all workers of a partition; null where its model has no threshold. */
  look(candidates: PartitionCandidates, model: string, blockSize: number): BusyMarks | null {
    const thresholds = this.#thresholds.get(model);
    if (thresholds === undefined) return null;
    const marks = this.#limitsOf(candidates, thresholds, blockSize);
    const { decodeBlocks, prefillTokens, tokensLeft, busy } = marks;
    const { slots, idWords } = candidates;
    const { activeDecodeBlocks, activePrefillTokens } = this.#loads;
    const count = slots.length;
    for (let index = 0; index < count; index += 1) tokensLeft[index] = activePrefillTokens[slots[index]!]!;
    this.#loads.decayPrefill(tokensLeft, slots, count);
    // The ranks of a worker stand together.
    for (let first = 0; first < count; ) {
      let end = first;
      let mark = 1;
      do {
        const slot = slots[end]!;
        const isFree =
          activeDecodeBlocks[slot]! <= decodeBlocks[end]! && tokensLeft[end]! <= prefillTokens[end]!;
        if (isFree) mark = 0;
        end += 1;
      } while (
        end < count &&
        idWords[2 * end] === idWords[2 * first] &&
        idWords[2 * end + 1] === idWords[2 * first + 1]
      );
      if (busy[first] !== mark) {
        busy.fill(mark, first, end);
        marks.changed = true;
      }
      first = end;
    }
    return marks;
  }

  /** What the latest look at a partition found; null = there was none. */
  marksOf(candidates: PartitionCandidates): BusyMarks | null {
    return this.#marks.get(candidates) ?? null;
  }

  /** Loads above which each rank of a worker is busy, in the order of its slots. */
  limitsOf(worker: Worker, blockSize: number | null): RankLimits {
    return rankLimits(worker, this.thresholdsOf(worker.spec.model), blockSize);
  }

  /** Whether a worker is busy now. */
  isBusy(worker: Worker, blockSize: number | null): boolean {
    const { decodeBlocks, prefillTokens } = this.limitsOf(worker, blockSize);
    return worker.slots.every((slot) => this.#excess(slot, decodeBlocks, prefillTokens) !== null);
  }

  /**
   * Ms until the first of some busy ranks is free again; null where nothing was measured of any.
   * @param counts whether the rank of this candidate is one of those.
   */
  msUntilFree(
    candidates: PartitionCandidates,
    marks: BusyMarks,
    counts: (index: number) => boolean,
  ): number | null {
    let shortest: number | null = null;
    for (let index = 0; index < candidates.slots.length; index += 1) {
      if (marks.busy[index] !== 1 || !counts(index)) continue;
      const slot = candidates.slots[index] ?? 0;
      const excess = this.#excess(slot, marks.decodeBlocks[index] ?? 0, marks.prefillTokens[index] ?? 0);
      const wait = excess && this.drain.msUntil(slot, excess.blocks, excess.prefillTokens);
      if (wait !== null && (shortest === null || wait < shortest)) shortest = wait;
    }
    return shortest;
  }

  /** By how much a slot is over its limits; null = it is not. */
  #excess(slot: OwnerSlot, decodeBlocks: number, prefillTokens: number) {
    const blocks = (this.#loads.activeDecodeBlocks[slot] ?? 0) - decodeBlocks;
    const tokens = this.#loads.prefillTokensOn(slot) - prefillTokens;
    return blocks > 0 || tokens > 0 ? { blocks, prefillTokens: tokens } : null;
  }

  #limitsOf(candidates: PartitionCandidates, thresholds: BusyThresholds, blockSize: number): BusyMarks {
    let marks = this.#marks.get(candidates);
    if (marks === undefined) {
      const count = candidates.slots.length;
      marks = {
        decodeBlocks: new Float64Array(count),
        prefillTokens: new Float64Array(count),
        tokensLeft: new Float64Array(count),
        busy: new Uint8Array(count),
        changed: true,
        fleetVersion: -1,
        settings: -1,
        blockSize,
      };
      this.#marks.set(candidates, marks);
    }
    const { version } = this.#fleet;
    const isCurrent = marks.fleetVersion === version && marks.settings === this.#settings;
    if (isCurrent && marks.blockSize === blockSize) {
      marks.changed = false;
      return marks;
    }
    marks.changed = true;
    marks.fleetVersion = version;
    marks.settings = this.#settings;
    marks.blockSize = blockSize;
    candidates.slots.forEach((slot, index) => {
      const worker = this.#fleet.workerOfSlot(slot);
      if (worker === null) return;
      const limits = rankLimits(worker, thresholds, blockSize);
      marks.decodeBlocks[index] = limits.decodeBlocks;
      marks.prefillTokens[index] = limits.prefillTokens;
    });
    return marks;
  }
}

/** Loads above which each rank of a worker is busy. A capacity that nobody states makes no limit, and never one of 0. */
export function rankLimits(
  worker: Pick<Worker, 'spec' | 'capabilities' | 'engine'>,
  thresholds: BusyThresholds,
  blockSize: number | null,
): RankLimits {
  const { activeDecodeBlocks, activePrefillTokens, activePrefillTokensFrac } = thresholds;
  const blocks = rankBlocks(worker, blockSize);
  const perPass = maxNumBatchedTokensOf(worker);
  const share = (part: number | null, whole: number | null): number =>
    part === null || whole === null ? Number.POSITIVE_INFINITY : part * whole;
  return {
    decodeBlocks: share(activeDecodeBlocks, blocks),
    prefillTokens: Math.min(
      activePrefillTokens ?? Number.POSITIVE_INFINITY,
      share(activePrefillTokensFrac, perPass),
    ),
  };
}

/** KV blocks of one rank, in the model's block size; null = nobody states them. */
export function rankBlocks(
  worker: Pick<Worker, 'spec' | 'capabilities' | 'engine'>,
  blockSize: number | null,
): number | null {
  const blocks = totalKvBlocksOf(worker);
  if (blocks === null || worker.spec.totalKvBlocks !== null) return blocks;
  // Who counts them counts its own pages, of which the model's blocks may hold several.
  const { capabilities, engine } = worker;
  const said = capabilities?.totalKvBlocks == null ? engine?.description.blockSize : capabilities.blockSize;
  const page = said ?? saidBlockSize(worker);
  return page === null || blockSize === null ? blocks : (blocks * page) / blockSize;
}
