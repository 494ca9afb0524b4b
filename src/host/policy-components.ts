// Calls the callbacks of one worker-selection policy and contains them: what they throw and what they answer is checked here.
import {
  type Commitment,
  errorText,
  type Logger,
  PointsmanError,
  picksLowestCost,
  type SelectionRequest,
  type WorkerFilter,
  type WorkerInput,
  type WorkerPicker,
  type WorkerScorer,
} from '../plugin/index.ts';
import type { CompactCandidates } from './compact-candidates.ts';
import { componentView } from './component-views.ts';
import { type LowestSum, sumCosts } from './cost-sums.ts';
import { DecisionRows, LazyColumn } from './lazy-column.ts';
import {
  absorbPromise,
  commitWithoutSource,
  componentBroke,
  componentThrew,
  detachedArray,
  invalidPick,
  nonFiniteCost,
  type PolicySite,
} from './selection-errors.ts';
import { explainThrown, WORKER_MEMBERS } from './undeclared-input.ts';

/** The parts a policy's `create` returned. */
export interface PolicyParts {
  readonly filters: readonly WorkerFilter[];
  readonly scorers: readonly WorkerScorer[];
  /** Null with a declared cost. */
  readonly picker: WorkerPicker<Commitment> | null;
  /** Whether its choices may commit KV copies. */
  readonly commits: boolean;
}

/**
 * Slots begin at multiples of this many rows, 32 bytes. Processors copy twenty times slower where source and target lie, but for whole
 * pages, less than 32 bytes apart, as separate arrays of 512 or 1,024 rows do: each has a header of 16 bytes before it.
 */
const SLOT_ROWS = 4;

/** The callbacks of one policy, each with its own view of the candidates. */
export class PolicyComponents {
  readonly #site: PolicySite;
  readonly #parts: PolicyParts;
  readonly #log: Logger;
  readonly #filterNames: readonly string[];
  readonly #candidates: CompactCandidates;
  readonly #filterViews: readonly object[];
  readonly #scorerViews: readonly object[];
  readonly #pickerView: object;
  readonly #picksLowest: boolean;
  /** What each scorer wrote, exactly as long as there are candidates. Making these costs more than a small scan, so they are kept. */
  #slots: readonly Float64Array[] = [];
  /** The same in objects for the scorers, who may change what members of theirs answer. */
  #shownSlots: readonly Float64Array[] = [];
  #slotCount = -1;
  /** One array for all, see {@link SLOT_ROWS}: what slots hold before a scorer writes, then a slot per scorer. */
  #room = new Float64Array(0);
  #slotRoom = 0;
  #zeros = new Float64Array(0);
  /** What slots hold before a scorer writes; copying it is four times as fast as filling. */
  #unwritten = new Float64Array(0);
  /** The sums as the picker sees them: a copy, as the host goes on with its own. */
  readonly #sumRows = new DecisionRows();
  readonly #sums = new LazyColumn(this.#sumRows);
  /** The lowest sum of the last {@link score}. */
  readonly lowest: LowestSum = { row: -1, ties: 0, tied: false };
  /** Whether the last pick commits a KV copy. */
  commitKvCopy = false;
  readonly #complained = new Set<string>();

  /** @param candidates those of each decision, taken before any call here. */
  constructor(site: PolicySite, parts: PolicyParts, candidates: CompactCandidates, log: Logger) {
    this.#site = site;
    this.#parts = parts;
    this.#candidates = candidates;
    this.#log = log;
    this.#filterNames = parts.filters.map((filter, at) => filter.name ?? `filter ${at + 1}`);
    this.#filterViews = parts.filters.map((filter) => componentView(filter.inputs, candidates));
    this.#scorerViews = parts.scorers.map((scorer) => componentView(scorer.inputs, candidates));
    this.#pickerView = componentView(parts.picker?.inputs ?? [], candidates, this.#sums);
    this.#picksLowest = parts.picker !== null && picksLowestCost(parts.picker);
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
        throw this.#threw(name, thrown, filters[at]!.inputs);
      }
      if (keeps === false) return name;
      if (keeps !== true) {
        absorbPromise(keeps);
        throw componentBroke(this.#site, name, 'must answer true or false', keeps);
      }
    }
    return null;
  }

  /**
   * To be called after {@link dropper} was asked about all rows.
   * @throws PointsmanError PM_PLUGIN_INVALID where a filter gave columns away.
   */
  endFiltering(): void {
    if (this.#candidates.isWhole()) return;
    const [only = '', another] = this.#filterNames;
    throw detachedArray(this.#site, another === undefined ? only : 'a filter');
  }

  /** Writes the sums of what the scorers wrote to `totals[0 … count)`, and the lowest of them to {@link lowest}. */
  score(request: SelectionRequest, totals: Float64Array): void {
    const { scorers } = this.#parts;
    const { count } = this.#candidates;
    this.#makeRoom(count);
    const slots = this.#slots;
    for (let at = 0; at < scorers.length; at += 1) {
      slots[at]!.set(this.#unwritten);
      let result: unknown;
      try {
        result = scorers[at]!.score(this.#scorerViews[at] as never, this.#shownSlots[at]!, request);
      } catch (thrown) {
        if (this.#unwritten.length === count) this.#checkSums(at, count);
        throw this.#threw(`scorer ${at + 1}`, thrown, scorers[at]!.inputs);
      }
      // Slots share one array.
      if (this.#unwritten.length !== count) throw detachedArray(this.#site, `scorer ${at + 1}`);
      if (result !== undefined) {
        absorbPromise(result);
        this.#checkSums(at, count);
        throw componentBroke(this.#site, `scorer ${at + 1}`, 'must return nothing', result);
      }
    }
    // Once for all: this reads every column.
    if (!this.#candidates.isWhole())
      throw detachedArray(this.#site, scorers.length === 1 ? 'scorer 1' : 'a scorer');
    if (!sumCosts(slots, this.#zeros, count, totals, this.lowest)) this.#checkSums(scorers.length, count);
  }

  #makeRoom(count: number): void {
    if (!this.#sums.isAttached) this.#sums.keepIn(new Float64Array(this.#slotRoom));
    if (this.#slotCount === count && this.#unwritten.length === count) return;
    const { scorers } = this.#parts;
    if (this.#slotRoom < count || this.#room.length === 0) {
      const room = Math.ceil((2 * count) / SLOT_ROWS) * SLOT_ROWS;
      this.#zeros = new Float64Array(room);
      this.#room = new Float64Array(room * (1 + scorers.length)).fill(Number.NaN, 0, room);
      this.#slotRoom = room;
      this.#sums.keepIn(new Float64Array(room));
    }
    const room = this.#slotRoom;
    this.#unwritten = this.#room.subarray(0, count);
    this.#slots = scorers.map((_, at) => this.#room.subarray((at + 1) * room, (at + 1) * room + count));
    this.#shownSlots = this.#slots.map((slot) => slot.subarray());
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
  pick(request: SelectionRequest, totals: Float64Array): number {
    const { count } = this.#candidates;
    this.commitKvCopy = false;
    // Without a tie it would draw nothing and answer this.
    if (this.#picksLowest && !this.lowest.tied) return this.lowest.row;
    this.#sumRows.set(null, count);
    this.#sums.point(totals);
    let row: unknown;
    let commit: unknown = false;
    try {
      const answer: unknown = this.#parts.picker?.pick(this.#pickerView as never, request);
      row = answer;
      if (typeof answer === 'object' && answer !== null && !(answer instanceof Promise)) {
        row = Reflect.get(answer, 'row') ?? answer;
        commit = Reflect.get(answer, 'commitKvCopy');
      }
    } catch (thrown) {
      // A refusal in the policy's own words, not a fault of it.
      if (thrown instanceof PointsmanError && thrown.code === 'PM_SELECTION_PIN_REQUIRED') throw thrown;
      throw this.#threw('the picker', thrown, this.#parts.picker?.inputs ?? []);
    }
    if (!this.#sums.isAttached || !this.#candidates.isWhole()) throw detachedArray(this.#site, 'the picker');
    if (typeof row === 'number' && Number.isInteger(row) && row >= 0 && row < count) {
      if (typeof commit !== 'boolean') {
        absorbPromise(commit);
        throw componentBroke(this.#site, 'the picker', 'must answer commitKvCopy true or false', commit);
      }
      if (commit) this.#checkCommit(row);
      this.commitKvCopy = commit;
      return row;
    }
    absorbPromise(row);
    throw invalidPick(this.#site, count, row);
  }

  #checkCommit(row: number): void {
    if (!this.#parts.commits) {
      throw commitWithoutSource(this.#site, row, 'but this instance of the policy commits none');
    }
    if (!this.#candidates.hasCopyable(row)) {
      throw commitWithoutSource(this.#site, row, 'but copies.copyableBlocks of that row is 0');
    }
  }

  #threw(component: string, value: unknown, inputs: readonly WorkerInput[]): PointsmanError {
    const thrown = explainThrown(value, inputs, WORKER_MEMBERS);
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
