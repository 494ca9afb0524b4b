// What decides when a role's own policy is broken: the default cost over the same candidates. It has no filters and no plugin
// code, so it can always decide.
import {
  chooseFromTable,
  evaluateLinearCost,
  type SelectionFacts,
  type SelectionPick,
} from '../host/index.ts';
import { type LinearCost, linearCost, type Rng, type Role, type WorkerTarget } from '../plugin/index.ts';
import type { CostOverride, PlacementTable } from './types.ts';

/** The cheapest row of an affinity target, as the policy of the default cost keeps to it; -1 = it is no candidate. */
function cheapestOf({ costs, count, ranks, workerIds }: PlacementTable, target: WorkerTarget): number {
  let cheapest = -1;
  for (let row = 0; row < count; row += 1) {
    if (workerIds[row] !== target.workerId || (target.rank !== null && ranks[row] !== target.rank)) continue;
    if (cheapest < 0 || costs[row]! < costs[cheapest]!) cheapest = row;
  }
  return cheapest;
}

/** The default cost as a chooser; costs lie in the table's column. */
export class DefaultChoice {
  /** Weights in force. */
  readonly weights: Readonly<Record<string, number>>;
  readonly #cost: LinearCost;
  readonly #rng: Rng;
  readonly #lowest = { row: -1, tied: false };
  #scratch = new Float64Array(0);

  /** @param rng for ties and sampling. */
  constructor(cost: LinearCost, rng: Rng) {
    this.#cost = cost;
    this.#rng = rng;
    this.weights = cost.weights;
  }

  /** The same cost with other weights; ties and sampling go on with the same draws. */
  weighing(changes: CostOverride): DefaultChoice {
    return new DefaultChoice(linearCost({ ...this.#cost.weights, ...changes }), this.#rng);
  }

  /** Chooses among at least one candidate. */
  select(table: PlacementTable, facts: SelectionFacts, role: Role): SelectionPick {
    const { costs, count } = table;
    if (this.#scratch.length < count) this.#scratch = new Float64Array(count * 2);
    const lowest = this.#lowest;
    evaluateLinearCost(this.#cost, { decode: role === 'decode', taints: true }, table, facts, costs, lowest);
    const kept = facts.affinityTarget === null ? -1 : cheapestOf(table, facts.affinityTarget);
    if (kept >= 0) return { row: kept, costs, droppedBy: null, by: 'pinned', ties: 1, randomDraw: null };
    const temperature = facts.temperatureOverride ?? this.#cost.weights.router_temperature;
    const { row, ties, draw } = chooseFromTable(table, temperature, lowest, this.#rng, this.#scratch);
    return {
      row,
      costs,
      droppedBy: null,
      by: draw === null ? 'lowest_cost' : 'sampled',
      ties,
      randomDraw: draw,
    };
  }
}
