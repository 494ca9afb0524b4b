// Calls the callbacks of one worker-selection policy and contains them: what they throw and what they answer is checked here.
import {
  type Commitment,
  errorText,
  type Logger,
  type PointsmanError,
  type SelectionRequest,
  type WorkerFilter,
  type WorkerPicker,
  type WorkerScorer,
} from '../plugin/index.ts';
import { type ComponentView, componentView, pointView } from './component-views.ts';
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
  #contribution = new Float64Array(0);
  /** The part of `#contribution` handed to scorers; making one costs more than a small scan, so it is kept. */
  #slots = new Float64Array(0);
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

  /** Adds what every scorer wrote to `totals[0 … table.count)`. */
  score(table: CandidateTable, request: SelectionRequest, totals: Float64Array): void {
    const { scorers } = this.#parts;
    const count = table.count;
    if (this.#contribution.length < count) this.#contribution = new Float64Array(totals.length);
    if (this.#slots.length !== count) this.#slots = this.#contribution.subarray(0, count);
    const slots = this.#slots;
    for (let at = 0; at < scorers.length; at += 1) {
      const view = this.#scorerViews[at]!;
      pointView(view, table);
      slots.fill(Number.NaN);
      let result: unknown;
      try {
        result = scorers[at]!.score(view as never, slots, request);
      } catch (thrown) {
        throw this.#threw(`scorer ${at + 1}`, thrown);
      }
      if (result !== undefined) {
        absorbPromise(result);
        throw componentBroke(this.#site, `scorer ${at + 1}`, 'must return nothing', result);
      }
      for (let row = 0; row < count; row += 1) {
        const total = totals[row]! + slots[row]!;
        if (!Number.isFinite(total)) throw nonFiniteCost(this.#site, `scorer ${at + 1}`, total, row);
        totals[row] = total;
      }
    }
  }

  /** The row the picker answers, checked. */
  pick(table: CandidateTable, request: SelectionRequest, totals: Float64Array): number {
    const view = this.#pickerView;
    pointView(view, table);
    view.costs = totals;
    this.commitKvCopy = false;
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
