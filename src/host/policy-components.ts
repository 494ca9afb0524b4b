// Calls the callbacks of one worker-selection policy and contains them: what they throw and what they answer is checked here.
import {
  type Commitment,
  errorText,
  type Logger,
  PointsmanError,
  picksLowestCost,
  type SelectionRequest,
  type WorkerFilter,
  type WorkerPicker,
  type WorkerScorer,
} from '../plugin/index.ts';
import { type ComponentView, componentView, pointView } from './component-views.ts';
import { type LowestSum, sumCosts } from './cost-sums.ts';
import {
  absorbPromise,
  commitWithoutSource,
  componentBroke,
  componentThrew,
  invalidPick,
  nonFiniteCost,
  type PolicySite,
} from './selection-errors.ts';
import type { CandidateTable } from './types.ts';

/** The parts a policy's `create` returned. */
export interface PolicyParts {
  readonly filters: readonly WorkerFilter[];
  readonly scorers: readonly WorkerScorer[];
  /** Null with a declared cost. */
  readonly picker: WorkerPicker<Commitment> | null;
  /** Whether its choices may commit KV copies. */
  readonly commits: boolean;
}

/** The callbacks of one policy, each with its own view of the candidates. */
export class PolicyComponents {
  readonly #site: PolicySite;
  readonly #parts: PolicyParts;
  readonly #log: Logger;
  readonly #filterNames: readonly string[];
  readonly #filterViews: readonly ComponentView[];
  readonly #scorerViews: readonly ComponentView[];
  readonly #pickerView: ComponentView;
  readonly #picksLowest: boolean;
  #room: readonly Float64Array[] = [];
  /** What each scorer wrote, exactly as long as there are candidates. Making these costs more than a small scan, so they are kept. */
  #slots: readonly Float64Array[] = [];
  #slotCount = -1;
  #zeros = new Float64Array(0);
  /** What slots hold before a scorer writes; copying it is twice as fast as filling. */
  #unwritten = new Float64Array(0);
  #unwrittenRoom = new Float64Array(0);
  /** The lowest sum of the last {@link score}. */
  readonly lowest: LowestSum = { row: -1, ties: 0, tied: false };
  /** Whether the last pick commits a KV copy. */
  commitKvCopy = false;
  readonly #complained = new Set<string>();

  constructor(site: PolicySite, parts: PolicyParts, log: Logger) {
    this.#site = site;
    this.#parts = parts;
    this.#log = log;
    this.#filterNames = parts.filters.map((filter, at) => filter.name ?? `filter ${at + 1}`);
    this.#filterViews = parts.filters.map((filter) => componentView(filter.inputs));
    this.#scorerViews = parts.scorers.map((scorer) => componentView(scorer.inputs));
    this.#pickerView = componentView(parts.picker?.inputs ?? []);
    this.#picksLowest = parts.picker !== null && picksLowestCost(parts.picker);
  }

  /** Points the filters at a table; before a run of {@link dropper}. */
  startFilters(table: CandidateTable): void {
    for (const view of this.#filterViews) pointView(view, table);
  }

  /** Name of the first filter that drops a row, or null when all keep it. */
  dropper(row: number, request: SelectionRequest): string | null {
    const { filters } = this.#parts;
    for (let at = 0; at < filters.length; at += 1) {
      const name = this.#filterNames[at]!;
      let keeps: unknown;
      try {
        keeps = filters[at]!.keep(this.#filterViews[at] as never, row, request);
      } catch (thrown) {
        throw this.#threw(name, thrown);
      }
      if (keeps === false) return name;
      if (keeps !== true) {
        absorbPromise(keeps);
        throw componentBroke(this.#site, name, 'must answer true or false', keeps);
      }
    }
    return null;
  }

  /** Writes the sums of what the scorers wrote to `totals[0 … table.count)`, and the lowest of them to {@link lowest}. */
  score(table: CandidateTable, request: SelectionRequest, totals: Float64Array): void {
    const { scorers } = this.#parts;
    const { count } = table;
    this.#makeRoom(count);
    const slots = this.#slots;
    for (let at = 0; at < scorers.length; at += 1) {
      const view = this.#scorerViews[at]!;
      pointView(view, table);
      slots[at]!.set(this.#unwritten);
      let result: unknown;
      try {
        result = scorers[at]!.score(view as never, slots[at]!, request);
      } catch (thrown) {
        this.#checkSums(at, count);
        throw this.#threw(`scorer ${at + 1}`, thrown);
      }
      if (result !== undefined) {
        absorbPromise(result);
        this.#checkSums(at, count);
        throw componentBroke(this.#site, `scorer ${at + 1}`, 'must return nothing', result);
      }
    }
    if (!sumCosts(slots, this.#zeros, count, totals, this.lowest)) this.#checkSums(scorers.length, count);
  }

  #makeRoom(count: number): void {
    if (this.#slotCount === count) return;
    if (this.#zeros.length < count) {
      this.#zeros = new Float64Array(2 * count);
      this.#unwrittenRoom = new Float64Array(2 * count).fill(Number.NaN);
      this.#room = this.#parts.scorers.map(() => new Float64Array(2 * count));
    }
    this.#slots = this.#room.map((room) => room.subarray(0, count));
    this.#unwritten = this.#unwrittenRoom.subarray(0, count);
    this.#slotCount = count;
  }

  /** Throws for the first of the first `scorers` scorers that made a sum not finite. */
  #checkSums(scorers: number, count: number): void {
    const sums = new Float64Array(count);
    for (let at = 0; at < scorers; at += 1) {
      const slots = this.#slots[at]!;
      for (let row = 0; row < count; row += 1) {
        sums[row]! += slots[row]!;
        if (!Number.isFinite(sums[row])) {
          throw nonFiniteCost(this.#site, `scorer ${at + 1}`, sums[row]!, row);
        }
      }
    }
  }

  /** The row the picker answers, checked; after {@link score}. */
  pick(table: CandidateTable, request: SelectionRequest, totals: Float64Array): number {
    this.commitKvCopy = false;
    // Without a tie it would draw nothing and answer this.
    if (this.#picksLowest && !this.lowest.tied) return this.lowest.row;
    const view = this.#pickerView;
    pointView(view, table);
    view.costs = totals;
    let row: unknown;
    let commit: unknown = false;
    try {
      const answer: unknown = this.#parts.picker?.pick(view as never, request);
      row = answer;
      if (typeof answer === 'object' && answer !== null && !(answer instanceof Promise)) {
        row = Reflect.get(answer, 'row') ?? answer;
        commit = Reflect.get(answer, 'commitKvCopy');
      }
    } catch (thrown) {
      // A refusal in the policy's own words, not a fault of it.
      if (thrown instanceof PointsmanError && thrown.code === 'PM_SELECTION_PIN_REQUIRED') throw thrown;
      throw this.#threw('the picker', thrown);
    }
    if (typeof row === 'number' && Number.isInteger(row) && row >= 0 && row < table.count) {
      if (typeof commit !== 'boolean') {
        absorbPromise(commit);
        throw componentBroke(this.#site, 'the picker', 'must answer commitKvCopy true or false', commit);
      }
      if (commit) this.#checkCommit(table, row);
      this.commitKvCopy = commit;
      return row;
    }
    absorbPromise(row);
    throw invalidPick(this.#site, table.count, row);
  }

  #checkCommit(table: CandidateTable, row: number): void {
    if (!this.#parts.commits) {
      throw commitWithoutSource(this.#site, row, 'but this instance of the policy commits none');
    }
    if (!(table.hasCopies && table.copyableBlocks[row]! >= 1)) {
      throw commitWithoutSource(this.#site, row, 'but copies.copyableBlocks of that row is 0');
    }
  }

  #threw(component: string, thrown: unknown): PointsmanError {
    // Once per component: a policy that throws on every request must not drown the log; counters go on.
    if (!this.#complained.has(component)) {
      this.#complained.add(component);
      this.#log.error('worker-selection policy threw', {
        ...this.#site,
        component,
        error: errorText(thrown),
      });
    }
    return componentThrew(this.#site, component, thrown);
  }
}
