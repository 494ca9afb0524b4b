// Selection and booking as one synchronous step: loads are read, a policy chooses, the choice is booked, and nothing else can
// happen in between. Budget: no allocation per worker or per block.
import type { BusyThresholds } from '../config/index.ts';
import type { Fleet, PartitionCandidates } from '../fleet/index.ts';
import { type CopyCommit, CopySources, type SelectionPick } from '../host/index.ts';
import type { OwnerSlot } from '../kv/index.ts';
import { type Metrics, NO_METRICS } from '../observe/index.ts';
import type { PointsmanError } from '../plugin/index.ts';
import { type BusyMarks, BusyWorkers } from './busy-workers.ts';
import { CandidateColumns } from './candidate-table.ts';
import { DeclaredFacts } from './declared-facts.ts';
import {
  BUSY,
  type EligibilityRules,
  ExcludedColumns,
  exclusionOf,
  NO_RULES,
  rulesOf,
} from './eligibility.ts';
import { EngineLoads } from './engine-loads.ts';
import { findEligible } from './find-eligible.ts';
import { bookedBlocks, overridden, tracksPrefillTokens } from './placement-overrides.ts';
import { PolicyChoice } from './policy-choice.ts';
import type { PrefillModel } from './prefill-model.ts';
import { QueueGate } from './queue-gate.ts';
import { noCandidateError, overloadError, pinOutsideAllowList, unknownAdapterError } from './refusals.ts';
import { type MutablePlacement, reusedPlacement } from './reused-placement.ts';
import type { ChangeableOptions, SchedulerOptions } from './scheduler-options.ts';
import { factsOf, targetedPick } from './selection-facts.ts';
import { SlotLoads } from './slot-loads.ts';
import { taintMultiplier } from './taints.ts';
import type { WorkerTimings } from './timing/worker-timings.ts';
import type { Placement, PlacementRequest, PlacementTable, PlacementTarget } from './types.ts';

/** Chooses workers and keeps account of what was booked on them. */
export class Scheduler {
  readonly #fleet: Fleet;
  readonly #policies: PolicyChoice;
  #hostWeight: number;
  #diskWeight: number;
  #tracksOutputBlocks: boolean;
  readonly #metrics: Metrics;
  readonly #prefillModel: PrefillModel | null;
  readonly #loads: SlotLoads;
  readonly #table = new CandidateColumns();
  readonly #excluded = new ExcludedColumns();
  readonly #busy: BusyWorkers;
  /** What engines report of themselves, and whether it counts. */
  readonly engineLoads = new EngineLoads();
  /** Asked by admission queues. */
  readonly gate: QueueGate;
  readonly #now: () => number;
  readonly #facts: DeclaredFacts;
  readonly #copySources: CopySources;
  readonly #placement: MutablePlacement;
  readonly #unlisten: () => void;
  /** Whose rows the table holds when they were found without any rules, and for which version of the fleet. */
  #plainCandidates: PartitionCandidates | null = null;
  #plainVersion = -1;

  constructor(options: SchedulerOptions) {
    this.#fleet = options.fleet;
    this.#copySources = new CopySources(options.fleet, this.requestsOn);
    this.#metrics = options.metrics ?? NO_METRICS;
    this.#policies = new PolicyChoice(options.fallback, this.#metrics);
    this.#hostWeight = options.hostCacheHitWeight ?? 0.75;
    this.#diskWeight = options.diskCacheHitWeight ?? 0.25;
    this.#tracksOutputBlocks = options.tracksOutputBlocks ?? false;
    this.#prefillModel = options.prefill?.model ?? null;
    this.#loads = new SlotLoads(options.prefill?.clock ?? null);
    this.#now = () => options.clock?.now() ?? 0;
    this.#facts = new DeclaredFacts(options.fleet, this.#loads, this.#now);
    this.#busy = new BusyWorkers(options.fleet, this.#loads, this.#now);
    const weights = () => ({ host: this.#hostWeight, disk: this.#diskWeight });
    this.gate = new QueueGate({ fleet: options.fleet, loads: this.#loads, weights });
    this.#metrics.gauge('pointsman_bookings_active', () => this.#loads.activeBookings);
    this.#placement = reusedPlacement(this.#table, this.#excluded);
    this.#facts.timings.report(this.#metrics);
    this.#unlisten = options.fleet.listen({
      stateChanged: (worker) => {
        if (worker.state === 'gone') for (const slot of worker.slots) this.#facts.left(slot);
      },
      restarted: (worker) => this.#facts.restarted(worker.slots),
      removed: (worker) => {
        for (const slot of worker.slots) {
          this.#facts.left(slot);
          this.#busy.drain.forget(slot);
          this.engineLoads.forget(slot);
          this.#facts.timings.forget(slot);
        }
      },
    });
  }

  /** Takes other settings from the next placement, and the next block of output, on. */
  reconfigure(options: ChangeableOptions): void {
    this.#policies.fallback = options.fallback;
    this.#hostWeight = options.hostCacheHitWeight;
    this.#diskWeight = options.diskCacheHitWeight;
    this.#tracksOutputBlocks = options.tracksOutputBlocks;
  }

  /** Takes the busy thresholds of every model, from the next placement on. */
  setBusyThresholds(byModel: ReadonlyMap<string, BusyThresholds>): void {
    this.#busy.setThresholds(byModel);
    this.#plainCandidates = null;
  }

  /** How long kinds of workers take. */
  get timings(): Pick<WorkerTimings, 'profile' | 'setProfile'> {
    return this.#facts.timings;
  }

  /** Who is busy, to be read. */
  get busy(): Pick<BusyWorkers, 'hasThresholds' | 'limitsOf' | 'isBusy'> {
    return this.#busy;
  }

  /** Loads per slot, to be read; bookings are changed through the scheduler only. */
  get loads(): SlotLoads {
    return this.#loads;
  }

  /** Requests booked on a slot now. */
  readonly requestsOn = (slot: OwnerSlot): number => this.#loads.activeRequests[slot] ?? 0;

  /**
   * Chooses a worker for a request and books it.
   * @returns the placement, one reused object.
   * @throws PointsmanError PM_SELECTION_OVERLOADED, PM_SELECTION_NO_ENDPOINTS, PM_SELECTION_PINNED_NOT_ALLOWED, PM_SELECTION_PINNED_UNAVAILABLE,
   *   PM_SELECTION_FAILED, PM_SELECTION_TRIPPED where that refuses, or the policy's own refusal (PM_SELECTION_ALL_FILTERED); then
   *   nothing is booked.
   */
  place(asked: PlacementRequest): Placement {
    const request = overridden(asked);
    const { slot, prefillTokens } = this.#choose(request);
    const placement = this.#placement;
    const durationMs = this.#prefillModel?.durationMs(request.partition.model, prefillTokens) ?? null;
    const sequence = request.hashes?.sequence ?? null;
    placement.attempt = this.#loads.book(slot, sequence, bookedBlocks(request), prefillTokens, durationMs);
    this.#facts.booked(placement.attempt, slot, request, prefillTokens);
    if (this.#busy.active) this.#busy.drain.booked(placement.attempt, slot, prefillTokens);
    return placement;
  }

  /** Chooses as {@link place} does and books nothing: the attempt is 0. */
  choose(asked: PlacementRequest): Placement {
    return this.#choose(overridden(asked));
  }

  /** What each candidate holds of a prompt and has to do, for {@link choose} to choose from; one reused object. */
  project(request: PlacementRequest): PlacementTable {
    this.#gather(request);
    return this.#table;
  }

  #choose(request: PlacementRequest): Placement {
    const { constraints, runtime, promptTokens, target = null } = request;
    const contradiction = pinOutsideAllowList(constraints);
    if (contradiction !== null) throw contradiction;
    this.#gather(request);
    const table = this.#table;
    if (table.count === 0) throw this.#refusal(request);
    const tracksPrefill = tracksPrefillTokens(request);
    const facts = factsOf(request, tracksPrefill);
    const placement = this.#placement;
    const pick =
      target === null ? this.#policies.choose(runtime, table, facts, request) : this.#targeted(target);
    const { row } = pick;
    const uncached =
      target?.prefillTokens ?? Math.max(0, promptTokens - this.#facts.cachedTokens(table, row, request));
    placement.attempt = 0;
    placement.slot = table.slots[row] ?? 0;
    placement.commit = pick.commitKvCopy === true ? this.#commitOf(row) : null;
    placement.workerId = this.#fleet.slotWorkerId(placement.slot) ?? 0n;
    placement.rank = table.ranks[row] ?? 0;
    placement.row = row;
    placement.pick = pick;
    placement.fellBackOn = this.#policies.fellBackOn;
    placement.costWeights = this.#policies.costWeights;
    placement.prefillTokens = tracksPrefill ? uncached : 0;
    placement.tracksPrefillTokens = tracksPrefill;
    placement.decodeBlocks = table.additionalBlocks[row] ?? 0;
    return placement;
  }

  /** The one candidate that a target leaves. */
  #targeted({ commitsCopy }: PlacementTarget): SelectionPick {
    this.#policies.passedOver();
    const commitKvCopy = commitsCopy && this.#table.hasCopies && (this.#table.copyableBlocks[0] ?? 0) >= 1;
    return targetedPick(commitKvCopy);
  }

  /** Copies of blocks: told of here, learnt from there. */
  get copies(): Pick<DeclaredFacts, 'copyBegun' | 'copyFailed' | 'links'> {
    return this.#facts;
  }

  /** The first output token of a booked attempt is out. False when the attempt holds no booking. */
  prefillCompleted(attempt: number): boolean {
    this.#facts.firstToken(attempt);
    if (!this.#busy.active) return this.#loads.prefillCompleted(attempt);
    this.#busy.drain.before(attempt);
    const held = this.#loads.prefillCompleted(attempt);
    this.#busy.drain.after(attempt, false, held);
    return held;
  }

  /**
   * The output of a booked attempt grew into another block; call at most once per item of its stream. Where its length is foreseen,
   * what the request alone holds weighs what is left of it: max(0, 1 − generated / expected).
   * @param generated tokens of output so far.
   * @param expectedTokens tokens of output foreseen, ≥ 0; null = not known, then blocks weigh 1 until the end.
   * @returns false when output is not tracked, or the attempt holds no booking.
   */
  outputBlock(attempt: number, generated: number, expectedTokens: number | null): boolean {
    if (!this.#tracksOutputBlocks) return false;
    const left = expectedTokens === null ? null : Math.max(0, 1 - generated / Math.max(expectedTokens, 1));
    return this.toldOutputBlock(attempt, left);
  }

  /**
   * A caller that carries its request itself says that its output grew into another block.
   * @param weight as of `SlotLoads.addOutputBlock`.
   * @returns false when the attempt holds no booking.
   */
  toldOutputBlock(attempt: number, weight: number | null): boolean {
    if (!this.#busy.active) return this.#loads.addOutputBlock(attempt, weight);
    this.#busy.drain.before(attempt);
    const held = this.#loads.addOutputBlock(attempt, weight);
    this.#busy.drain.after(attempt, false, held);
    return held;
  }

  /** The answer of a booked attempt is complete, with so many tokens; call before its release. */
  answered(attempt: number, outputTokens: number): void {
    this.#facts.answered(attempt, outputTokens);
  }

  /** The owner of a booked attempt still wants it. False when the attempt holds no booking. */
  renew(attempt: number): boolean {
    return this.#loads.renew(attempt);
  }

  /** Attempts that did not get on, by their bookings and by `gotOn`, since the last call; it is asked for each once. */
  idleBookings(gotOn: (attempt: number) => boolean): readonly number[] {
    return this.#loads.idleBookings(gotOn);
  }

  /** Ends a booking; false, and nothing changes, when the attempt holds none (any more). */
  release(attempt: number): boolean {
    if (!this.#busy.active) return this.#loads.free(attempt);
    this.#busy.drain.before(attempt);
    const held = this.#loads.free(attempt);
    this.#busy.drain.after(attempt, true, held);
    return held;
  }

  /** Stops listening to the fleet. */
  close(): void {
    this.#unlisten();
  }

  /** Fills the table with whoever may take the request, and `#excluded` with the others. */
  #gather(request: PlacementRequest): void {
    const { constraints, hashes, match, runtime, blockSize, partition } = request;
    const table = this.#table;
    const candidates = this.#fleet.candidates(partition, request.role, request.withRegistered);
    this.#loads.ensureCapacity(this.#fleet.slotCapacity);
    const tests = this.#busy.active && (request.target ?? null) === null;
    const marks = tests ? this.#busy.look(candidates, partition.model, blockSize) : null;
    this.#findEligible(candidates, rulesOf(constraints, request.loraName ?? null), marks);
    const weights = runtime.costWeights;
    table.fillCache(
      match,
      weights?.host_cache_hit_weight ?? this.#hostWeight,
      weights?.disk_cache_hit_weight ?? this.#diskWeight,
      blockSize,
    );
    this.#loads.measure(hashes?.sequence ?? null);
    table.fillLoad(this.#loads, bookedBlocks(request));
    this.#facts.fill(table, request);
    if (this.engineLoads.blends) this.engineLoads.blend(table, this.#now());
    this.#fillTaints(request);
    this.#fillCopies(request);
  }

  #fillCopies({ runtime, match, copyCredit }: PlacementRequest): void {
    this.#table.hasCopies = false;
    if (!runtime.needs.copies) return;
    const seen = copyCredit === false ? null : match;
    this.#copySources.fill(this.#table, seen, runtime.commits?.senderActions ?? null);
  }

  /** The copy behind a committing pick; the pipeline has checked that the row has a source. */
  #commitOf(row: number): CopyCommit | null {
    const table = this.#table;
    const sourceSlot = this.#copySources.sourceOf(table, row);
    if (sourceSlot < 0) return null;
    const additionalBlocks = table.copyableBlocks[row] ?? 0;
    return { sourceSlot, prefixBlocks: table.sourcePrefixBlocks[row] ?? 0, additionalBlocks };
  }

  /** Requests that ask for nothing find the same rows until the fleet changes, or others are busy: then the table is left as it is. */
  #findEligible(candidates: PartitionCandidates, rules: EligibilityRules, marks: BusyMarks | null): void {
    const fleet = this.#fleet;
    const plain = rules === NO_RULES && marks?.changed !== true;
    if (plain && candidates === this.#plainCandidates && fleet.version === this.#plainVersion) return;
    findEligible(fleet, candidates, rules, marks?.busy ?? null, this.#table, this.#excluded);
    this.#plainCandidates = rules === NO_RULES ? candidates : null;
    this.#plainVersion = fleet.version;
  }

  /** Why nobody can take a request: those who could are busy, or there is nobody who could. */
  #refusal(request: PlacementRequest): PointsmanError {
    const busy = this.#excluded.countOf(BUSY);
    const { partition, role, constraints, loraName = null } = request;
    const candidates = this.#fleet.candidates(partition, role, request.withRegistered);
    if (busy === 0) {
      return (
        unknownAdapterError(request, this.#fleet, candidates) ?? noCandidateError(request, this.#excluded)
      );
    }
    // Another look might find others busy than those that the table was filled by.
    const marks = this.#busy.marksOf(candidates);
    // The pinned rank waits for any rank of its worker.
    const rules = { ...rulesOf(constraints, loraName), pinnedRank: null };
    const waitMs =
      marks &&
      this.#busy.msUntilFree(candidates, marks, (index) => {
        const worker = this.#fleet.workerOfSlot(candidates.slots[index] ?? 0);
        return exclusionOf(worker, candidates.ranks[index] ?? 0, rules) < 0;
      });
    return overloadError(request, busy, this.#busy.thresholdsOf(partition.model), waitMs);
  }

  /** A pinned request goes where it is pinned, so its preferences say nothing. */
  #fillTaints({ constraints }: PlacementRequest): void {
    const table = this.#table;
    const preferred = constraints.preferredTaints;
    if (preferred.size === 0 || constraints.pinnedWorker !== null) {
      table.neutralTaints();
      return;
    }
    for (let row = 0; row < table.count; row += 1) {
      const worker = this.#fleet.workerOfSlot(table.slots[row] ?? 0);
      table.setTaint(row, taintMultiplier(worker?.taints ?? [], preferred));
    }
  }
}
