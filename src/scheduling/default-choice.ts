// What decides when a role's own policy is broken: the default cost over the same candidates. It has no filters and no plugin
// code, so it can always decide.
import {
  breakTies,
  chooseSampled,
  evaluateLinearCost,
  type SelectionFacts,
  type SelectionPick,
} from '../host/index.ts';
import { type LinearCost, linearCost, type Rng, type Role } from '../plugin/index.ts';
import type { CostOverride, PlacementTable } from './types.ts';

/** The default cost as a chooser; its cost column is reused. */
export class DefaultChoice {
  /** Weights in force. */
  readonly weights: Readonly<Record<string, number>>;
  readonly #cost: LinearCost;
  readonly #rng: Rng;
  readonly #lowest = { row: -1, tied: false };
  #costs = new Float64Array(0);
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
    const { count } = table;
    if (this.#costs.length < count) {
      this.#costs = new Float64Array(count * 2);
      this.#scratch = new Float64Array(count * 2);
    }
    const costs = this.#costs;
    const lowest = this.#lowest;
    evaluateLinearCost(this.#cost, { decode: role === 'decode', taints: true }, table, facts, costs, lowest);
    const temperature = facts.temperatureOverride ?? this.#cost.weights.router_temperature;
    const { row, ties, draw } =
      temperature > 0
        ? chooseSampled(costs, count, temperature, this.#rng, this.#scratch)
        : breakTies(costs, count, lowest, this.#rng);
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
