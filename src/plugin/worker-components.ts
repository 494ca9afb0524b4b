// The parts of a worker-selection policy. Each is made with its own function, so that each gets the types of exactly the inputs
// it declares; an inline array of objects would infer none.
import { candidateCursor } from './candidate-cursor.ts';
import type { Commitment } from './define.ts';
import type { Column, Granted, Merge, WorkerInput, WorkerInputs, WorkerRowInputs } from './inputs.ts';
import type { Rng } from './rng.ts';
import type { SelectionRequest } from './selection-request.ts';

/** The candidates of one decision; rows stand in (worker id, rank) order. Valid during the call. */
export type Candidates<I extends WorkerInput = never> = {
  /** Number of valid rows; columns may be longer. */
  readonly count: number;
  readonly workerIds: ArrayLike<bigint>;
  readonly ranks: Column;
} & ([I] extends [never] ? unknown : Merge<WorkerInputs[I]>);

/** One candidate. The same object is moved from row to row: copy what must stay. */
export type Candidate<I extends WorkerInput = never> = {
  readonly workerId: bigint;
  readonly rank: number;
} & ([I] extends [never] ? unknown : Merge<WorkerRowInputs[I]>);

/** Candidates for a list of inputs; a choice between lists gives a choice of shapes (`'cache' in candidates`). */
export type CandidatesFor<L extends readonly WorkerInput[]> = L extends readonly WorkerInput[]
  ? Candidates<Granted<L>>
  : never;

/** One candidate for a list of inputs. */
export type CandidateFor<L extends readonly WorkerInput[]> = L extends readonly WorkerInput[]
  ? Candidate<Granted<L>>
  : never;

/** Keeps or drops one candidate. Made by {@link filterWorkers}. */
export interface WorkerFilter {
  readonly component: 'filter';
  /** Shown in decision records beside the workers it dropped. */
  readonly name: string | null;
  readonly inputs: readonly WorkerInput[];
  /** `candidates` is what the declared inputs grant; the host alone calls this. */
  readonly keep: (candidates: never, row: number, request: SelectionRequest) => boolean;
}

/** Costs all candidates at once. Made by {@link scoreWorkers} or {@link scoreEachWorker}. */
export interface WorkerScorer {
  readonly component: 'scorer';
  readonly inputs: readonly WorkerInput[];
  /** `candidates` is what the declared inputs grant; the host alone calls this. */
  readonly score: (candidates: never, costs: Float64Array, request: SelectionRequest) => undefined;
}

/** A pick that may commit a copy: the host fixes the source, the best eligible one for that row. */
export interface CommittingPick {
  readonly row: number;
  /** True on a row without a copyable block is PM_COMMIT_WITHOUT_SOURCE. */
  readonly commitKvCopy: boolean;
}

/** What a picker may answer. */
export type Pick<C extends Commitment = never> = number | ([C] extends [never] ? never : CommittingPick);

/** Chooses a row. Made by {@link pickWorker} or {@link pickLowestCost}. `C` = the commitments its picks may make. */
export interface WorkerPicker<out C extends Commitment = never> {
  readonly component: 'picker';
  readonly inputs: readonly WorkerInput[];
  /** `table` is what the declared inputs grant, with `costs`; the host alone calls this. */
  readonly pick: (table: never, request: SelectionRequest) => Pick<C>;
}

/**
 * A filter: `keep` answers true to keep a candidate. Filters run in list order; the first that drops a candidate ends its turn.
 * When nothing is left the request fails with PM_SELECTION_ALL_FILTERED.
 */
export function filterWorkers<const I extends readonly WorkerInput[] = []>(options: {
  readonly name?: string;
  readonly inputs?: I;
  readonly keep: (candidate: CandidateFor<I>, request: SelectionRequest) => boolean;
}): WorkerFilter {
  const inputs = options.inputs ?? [];
  const cursor = candidateCursor(inputs);
  let begun: SelectionRequest | null = null;
  let over: object | null = null;
  return Object.freeze({
    component: 'filter',
    name: options.name ?? null,
    inputs,
    keep: (candidates: never, row: number, request: SelectionRequest) => {
      // Every decision has a request object of its own.
      if (request !== begun || candidates !== over) {
        begun = request;
        over = candidates;
        cursor.begin(candidates);
      }
      cursor.moveTo(row);
      return options.keep(cursor.candidate as never, request);
    },
  });
}

/**
 * A scorer over all candidates: write one finite number, lower is better, to `costs[row]` for every row below `count`. Scorers
 * are summed. A slot left unwritten is PM_SELECTION_NON_FINITE_COST.
 */
export function scoreWorkers<const I extends readonly WorkerInput[] = []>(options: {
  readonly inputs?: I;
  readonly score: (candidates: CandidatesFor<I>, costs: Float64Array, request: SelectionRequest) => undefined;
}): WorkerScorer {
  return Object.freeze({ component: 'scorer', inputs: options.inputs ?? [], score: options.score });
}

/** A scorer that is asked for one candidate at a time; about three times the cost of {@link scoreWorkers}. */
export function scoreEachWorker<const I extends readonly WorkerInput[] = []>(options: {
  readonly inputs?: I;
  readonly cost: (candidate: CandidateFor<I>, request: SelectionRequest) => number;
}): WorkerScorer {
  const inputs = options.inputs ?? [];
  const cursor = candidateCursor(inputs);
  return Object.freeze({
    component: 'scorer',
    inputs,
    score: (candidates: never, costs: Float64Array, request: SelectionRequest) => {
      cursor.begin(candidates);
      for (let row = 0; row < costs.length; row += 1) {
        cursor.moveTo(row);
        costs[row] = options.cost(cursor.candidate as never, request);
      }
      return undefined;
    },
  });
}

/** The commitments of a picker whose answers are of type `R`. */
type CommittedBy<R> = [R] extends [number] ? never : 'kv-copy';
type Picked<R> = R & Pick<CommittedBy<R>>;

/**
 * A picker: answers the row to take, 0 ≤ row < `table.count`; it need not be the cheapest. Anything else is
 * PM_SELECTION_INVALID_PICK. A policy with the commitment `kv-copy` may answer `{ row, commitKvCopy }` instead.
 */
export function pickWorker<
  const I extends readonly WorkerInput[] = [],
  R extends number | CommittingPick = number,
>(options: {
  readonly inputs?: I;
  readonly pick: (table: CandidatesFor<I> & { readonly costs: Column }, request: SelectionRequest) => R;
}): WorkerPicker<CommittedBy<R>> {
  return Object.freeze({
    component: 'picker',
    inputs: options.inputs ?? [],
    // The result type says what R says: only a picker that may answer mappings is a committing one.
    pick: options.pick as (table: never, request: SelectionRequest) => Picked<R>,
  });
}

/** The usual picker: the lowest cost, ties uniformly at random from `rng` (the k-th tie replaces the choice with probability 1/k). */
export function pickLowestCost(rng: Rng): WorkerPicker {
  const picker = pickWorker({
    pick({ count, costs }) {
      let best = 0;
      let least = costs[0]!;
      let ties = 1;
      for (let row = 1; row < count; row += 1) {
        const cost = costs[row]!;
        if (cost < least) {
          best = row;
          least = cost;
          ties = 1;
        } else if (cost === least) {
          ties += 1;
          if (rng.integer(ties) === 0) best = row;
        }
      }
      return best;
    },
  });
  // Tells the host, which knows the lowest cost from summing, that asking is needed for ties alone. On the function, so that a
  // picker made of this one with a `pick` of its own does not carry it.
  Object.defineProperty(picker.pick, PICKS_LOWEST, { value: true });
  return picker;
}

const PICKS_LOWEST = Symbol.for('pointsman.picksLowestCost');

/** Whether a picker is one of {@link pickLowestCost}, of any copy of this package. For the host. */
export function picksLowestCost(picker: WorkerPicker<Commitment>): boolean {
  return Reflect.get(picker.pick, PICKS_LOWEST) === true;
}
