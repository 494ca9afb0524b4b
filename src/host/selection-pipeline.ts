// Filters → scorers → picker over one decision's candidates. Holds only scratch space between calls: a throw leaves nothing behind.
// A declared cost without filters is evaluated on the caller's columns; everything else works on a compacted copy.
import type {
  Logger,
  PointsmanError,
  Rng,
  Role,
  SelectionRequest,
  WorkerInput,
  WorkerTarget,
} from '../plugin/index.ts';
import { CompactCandidates } from './compact-candidates.ts';
import type { DeclaredCost } from './created-policy.ts';
import { frozenSession } from './frozen-session.ts';
import { type CostSetting, evaluateLinearCost } from './linear-cost.ts';
import { PolicyComponents, type PolicyParts } from './policy-components.ts';
import { breakTies, chooseFromTable, chooseSampled, firstLowest, type RowChoice } from './row-choice.ts';
import { allFiltered, noEndpoints, nonFiniteCost, type PolicySite } from './selection-errors.ts';
import { evaluateTimeCost } from './time-cost.ts';
import type { CandidateTable, SelectionFacts, SelectionPick } from './types.ts';

/** A policy taken apart, as the pipeline runs it. */
export interface PipelineParts extends PolicyParts {
  /** Type of the policy, for errors. */
  readonly policy: string;
  readonly role: Role;
  readonly exclusiveAffinity: boolean;
  readonly cost: DeclaredCost | null;
  /** For ties and sampling of a declared cost. */
  readonly rng: Rng;
  readonly log: Logger;
}

/** Runs one policy for one partition and role. Not re-entrant. */
export class SelectionPipeline {
  readonly #parts: PipelineParts;
  readonly #site: PolicySite;
  readonly #components: PolicyComponents;
  /** The declared cost where no filter comes before it. */
  readonly #plainCost: DeclaredCost | null;
  readonly #setting: CostSetting;
  readonly #pinnedSetting: CostSetting;
  /** The cheapest row of the last evaluation. */
  readonly #lowest = { row: -1, tied: false };
  readonly #compact: CompactCandidates;
  /** Row of the caller's table per compact row. */
  #origin = new Int32Array(0);
  #kept = new Int32Array(0);
  #totals = new Float64Array(0);
  #scratch = new Float64Array(0);
  #costs = new Float64Array(0);
  readonly #droppedBy: (string | null)[] = [];

  constructor(parts: PipelineParts) {
    this.#parts = parts;
    this.#site = { policy: parts.policy, role: parts.role };
    this.#plainCost = parts.filters.length > 0 ? null : parts.cost;
    this.#setting = { decode: parts.role === 'decode', taints: true };
    this.#pinnedSetting = { decode: parts.role === 'decode', taints: false };
    this.#compact = new CompactCandidates(inputsOf(parts));
    this.#components = new PolicyComponents(this.#site, parts, this.#compact, parts.log);
  }

  /**
   * Decides. A pinned request gets its pinned rank without asking the picker; where the pin leaves the rank open, the cheapest.
   * @throws PointsmanError PM_SELECTION_NO_ENDPOINTS, PM_SELECTION_ALL_FILTERED, PM_SELECTION_NON_FINITE_COST,
   * PM_SELECTION_INVALID_PICK, PM_PLUGIN_THREW, PM_PLUGIN_INVALID.
   */
  select(table: CandidateTable, facts: SelectionFacts): SelectionPick {
    const { count } = table;
    if (count === 0) throw noEndpoints(this.#site, 'none is eligible');
    const cost = this.#plainCost;
    // What follows is nearly every decision, and small enough to be compiled into one piece with the evaluation.
    if (cost === null || facts.pinnedWorker !== null || facts.affinityTarget !== null) {
      return this.#selectOtherwise(table, facts);
    }
    return this.#selectByCost(cost, table, facts);
  }

  /** Among all rows by the declared cost. */
  #selectByCost(cost: DeclaredCost, table: CandidateTable, facts: SelectionFacts): SelectionPick {
    const { costs } = table;
    const lowest = this.#lowest;
    const finite =
      cost.component === 'linear-cost'
        ? evaluateLinearCost(cost, this.#setting, table, facts, costs, lowest)
        : evaluateTimeCost(cost, true, table, facts, costs, lowest);
    if (!finite) throw this.#notFinite(costs);
    const temperature = facts.temperatureOverride ?? cost.weights.router_temperature;
    if (temperature !== 0 || lowest.tied) return this.#selectByChance(cost, table, temperature);
    const { row } = lowest;
    const commits = cost.commits.length > 0;
    const commitKvCopy = commits && hasCopyable(table, row);
    return { row, costs, droppedBy: null, by: 'lowest_cost', ties: 1, randomDraw: null, commitKvCopy };
  }

  /** By costs just evaluated of which several are the lowest, or that are sampled. */
  #selectByChance(cost: DeclaredCost, table: CandidateTable, temperature: number): SelectionPick {
    const { costs, count } = table;
    if (this.#scratch.length < count) this.#scratch = new Float64Array(2 * count);
    const { rng } = this.#parts;
    const chosen = chooseFromTable(table, temperature, this.#lowest, rng, this.#scratch);
    const { row, ties, draw: randomDraw } = chosen;
    const commitKvCopy = cost.commits.length > 0 && hasCopyable(table, row);
    const by = randomDraw === null ? 'lowest_cost' : 'sampled';
    return { row, costs, droppedBy: null, by, ties, randomDraw, commitKvCopy };
  }

  #selectOtherwise(table: CandidateTable, facts: SelectionFacts): SelectionPick {
    const { affinityTarget } = facts;
    const pin = facts.pinnedWorker ?? (affinityTarget && this.#affinityPin(table, affinityTarget));
    const cost = this.#plainCost;
    if (cost !== null && pin === null) return this.#selectByCost(cost, table, facts);
    if (this.#costs.length < table.count) this.#makeRoom(table.count);
    return this.#selectCompacted(table, facts, pin);
  }

  #selectCompacted(table: CandidateTable, facts: SelectionFacts, pin: WorkerTarget | null): SelectionPick {
    const { cost, filters, scorers } = this.#parts;
    const compact = this.#compact;
    const request = requestOf(facts, pin);
    this.#load(table, pin);
    compact.lineage = facts.lineage ?? null;
    if (pin !== null) compact.preferredTaintMultiplier.fill(1);
    const droppedBy = filters.length > 0 ? this.#filter(table.count, request) : null;
    const isWhole = compact.count === table.count;
    const totals = isWhole ? this.#costs : this.#totals;
    if (cost !== null) this.#evaluate(cost, compact.table(), facts, totals, pin !== null);
    else this.#components.score(request, totals);

    let choice: RowChoice;
    let commit = false;
    let by: SelectionPick['by'];
    if (pin !== null) {
      choice = firstLowest(totals, compact.count);
      by = 'pinned';
    } else if (cost !== null) {
      const temperature = facts.temperatureOverride ?? cost.weights.router_temperature;
      choice = this.#chooseByCost(totals, compact.count, temperature);
      by = choice.draw === null ? 'lowest_cost' : 'sampled';
    } else {
      const row = this.#components.pick(request, totals);
      const ties = scorers.length > 0 ? this.#components.lowest.ties : 1;
      choice = { row, ties, draw: null };
      by = 'policy';
      commit = this.#components.commitKvCopy;
    }
    if (cost !== null && cost.commits.length > 0) commit = compact.hasCopyable(choice.row);
    if (!isWhole) {
      this.#costs.fill(Number.NaN, 0, table.count);
      for (let row = 0; row < compact.count; row += 1) this.#costs[this.#origin[row]!] = totals[row]!;
      choice.row = this.#origin[choice.row]!;
    }
    const { row, ties, draw: randomDraw } = choice;
    return { row, costs: this.#costs, droppedBy, by, ties, randomDraw, commitKvCopy: commit };
  }

  #makeRoom(rows: number): void {
    const room = Math.max(rows, this.#costs.length * 2);
    this.#compact.grow(room);
    this.#origin = new Int32Array(room);
    this.#kept = new Int32Array(room);
    this.#totals = new Float64Array(room);
    this.#scratch = new Float64Array(room);
    this.#costs = new Float64Array(room);
  }

  /** The affinity target where the policy is exclusive about it and one of its ranks is a candidate. */
  #affinityPin(table: CandidateTable, target: WorkerTarget): WorkerTarget | null {
    if (!this.#parts.exclusiveAffinity) return null;
    for (let row = 0; row < table.count; row += 1) if (isTarget(table, row, target)) return target;
    return null;
  }

  /** Takes the candidates, or those the pin allows, into the pipeline's own columns. */
  #load(table: CandidateTable, pin: WorkerTarget | null): void {
    const origin = this.#origin;
    if (pin === null) {
      // Asked for only where a filter may drop rows.
      if (this.#parts.filters.length > 0) for (let row = 0; row < table.count; row += 1) origin[row] = row;
      this.#compact.take(table, null, table.count);
      return;
    }
    let count = 0;
    for (let row = 0; row < table.count; row += 1) if (isTarget(table, row, pin)) origin[count++] = row;
    if (count === 0) throw noEndpoints(this.#site, 'the pinned worker is not among the eligible ones');
    this.#compact.take(table, origin, count);
  }

  /** Drops rows and closes the gaps; answers which filter dropped which row of the caller's table. */
  #filter(tableCount: number, request: SelectionRequest): readonly (string | null)[] {
    const compact = this.#compact;
    const droppedBy = this.#droppedBy;
    // Setting a length is a call into the runtime, even to what it is.
    if (droppedBy.length !== tableCount) droppedBy.length = tableCount;
    droppedBy.fill(null);
    let kept = 0;
    for (let row = 0; row < compact.count; row += 1) {
      const dropper = this.#components.dropper(row, request);
      if (dropper === null) this.#kept[kept++] = row;
      else droppedBy[this.#origin[row]!] = dropper;
    }
    this.#components.endFiltering();
    if (kept === 0) throw allFiltered(this.#site, compact.count);
    if (kept < compact.count) {
      for (let row = 0; row < kept; row += 1) this.#origin[row] = this.#origin[this.#kept[row]!]!;
      compact.narrow(this.#origin, kept);
    }
    return droppedBy;
  }

  #evaluate(
    cost: DeclaredCost,
    table: CandidateTable,
    facts: SelectionFacts,
    costs: Float64Array,
    pinned: boolean,
  ): void {
    const setting = pinned ? this.#pinnedSetting : this.#setting;
    const finite =
      cost.component === 'linear-cost'
        ? evaluateLinearCost(cost, setting, table, facts, costs, this.#lowest)
        : evaluateTimeCost(cost, setting.taints, table, facts, costs, this.#lowest);
    if (!finite) throw this.#notFinite(costs);
  }

  #notFinite(costs: Float64Array): PointsmanError {
    const row = costs.findIndex((value) => !Number.isFinite(value));
    return nonFiniteCost(this.#site, 'the declared cost', costs[row]!, row);
  }

  /** By costs just evaluated. */
  #chooseByCost(costs: Float64Array, count: number, temperature: number): RowChoice {
    const { rng } = this.#parts;
    if (temperature > 0) return chooseSampled(costs, count, temperature, rng, this.#scratch);
    return breakTies(costs, count, this.#lowest, rng);
  }
}

/** What any part of a policy reads. */
function inputsOf({ filters, scorers, picker, cost }: PipelineParts): ReadonlySet<WorkerInput> {
  return new Set([...filters, ...scorers, picker, cost].flatMap((part) => part?.inputs ?? []));
}

/** The request as policies see it: a copy, so that a policy cannot change what the host goes on with. */
function requestOf(facts: SelectionFacts, pinnedWorker: WorkerTarget | null): SelectionRequest {
  return Object.freeze({
    promptTokens: facts.promptTokens,
    requestBlocks: facts.requestBlocks,
    blockSize: facts.blockSize,
    tracksPrefillTokens: facts.tracksPrefillTokens,
    session: frozenSession(facts.session),
    affinityTarget: facts.affinityTarget,
    pinnedWorker,
    expectedOutputTokens: facts.expectedOutputTokens,
    priority: facts.priority,
    strictPriority: facts.strictPriority,
    temperatureOverride: facts.temperatureOverride,
  });
}

/** A declared cost that credits copies commits the one it credited. */
function hasCopyable({ hasCopies, copyableBlocks }: CandidateTable, row: number): boolean {
  return hasCopies && copyableBlocks[row]! >= 1;
}

function isTarget(table: CandidateTable, row: number, target: WorkerTarget): boolean {
  if (target.rank !== null && table.ranks[row] !== target.rank) return false;
  return table.workerIds[row] === target.workerId;
}
