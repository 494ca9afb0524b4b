// Two tiers, the first that applies: even out a lopsided load, else follow a long cached prefix; both end at the least loaded. The
// adaptive form weighs prefix against load instead. README.md has the rules.
import { z } from 'zod';
import {
  type Column,
  defineWorkerSelectionPolicy,
  pickWorker,
  type Rng,
  type WorkerSelectionPolicyDefinition,
} from '../../plugin/index.ts';

const THRESHOLDS = { cache_threshold: 0.5, balance_abs_threshold: 32, balance_rel_threshold: 1.1 } as const;

const parameterSchema = z
  .strictObject({
    cache_threshold: z.number().min(0).max(1).default(THRESHOLDS.cache_threshold),
    balance_abs_threshold: z.int().min(0).default(THRESHOLDS.balance_abs_threshold),
    balance_rel_threshold: z.number().min(1).default(THRESHOLDS.balance_rel_threshold),
    adaptive: z
      .strictObject({
        update_interval_ms: z.int().min(1).default(100),
        load_scale: z.number().min(1).default(32),
      })
      .nullish(),
  })
  .superRefine((given, issues) => {
    if (given.adaptive == null) return;
    for (const [name, value] of Object.entries(THRESHOLDS)) {
      if (given[name as keyof typeof THRESHOLDS] === value) continue;
      issues.addIssue({
        code: 'custom',
        path: [name],
        message: `adaptive works without thresholds: remove ${name} or leave it at ${value}, or remove adaptive`,
      });
    }
  });

/** `dynamo-two-tier-cost-fn`: load first where it is lopsided, else the longest cached prefix, else load; ties at random. */
export const dynamoTwoTierCostFn: WorkerSelectionPolicyDefinition = defineWorkerSelectionPolicy({
  type: 'dynamo-two-tier-cost-fn',
  parameters: parameterSchema,
  create({ parameters, rng, clock }) {
    const lowest = new LowestDraw(rng);
    const { adaptive } = parameters;
    const weight = adaptive == null ? null : new LoadWeight(adaptive.update_interval_ms, adaptive.load_scale);
    return {
      picker: pickWorker({
        inputs: ['cache', 'load'],
        pick({ count, cache: { deviceBlocks }, load: { activeRequests } }, { requestBlocks }) {
          const [fewest, most] = extremes(activeRequests, count);
          lowest.start();
          if (weight !== null) {
            const load = weight.at(clock.now(), fewest, most);
            const range = weight.loadScale + (most - fewest);
            for (let row = 0; row < count; row += 1) {
              const affinity =
                requestBlocks > 0 ? Math.min(1, Math.max(0, deviceBlocks[row]! / requestBlocks)) : 0;
              const distribution = (activeRequests[row]! - fewest) / range;
              lowest.offer(row, (1 - load) * (1 - affinity) + load * distribution);
            }
            return lowest.row;
          }
          const isLopsided =
            most - fewest > parameters.balance_abs_threshold &&
            most > parameters.balance_rel_threshold * fewest;
          const [, longest] = extremes(deviceBlocks, count);
          const followsPrefix =
            !isLopsided && requestBlocks > 0 && longest / requestBlocks > parameters.cache_threshold;
          for (let row = 0; row < count; row += 1) {
            if (!followsPrefix || deviceBlocks[row] === longest) lowest.offer(row, activeRequests[row]!);
          }
          return lowest.row;
        },
      }),
    };
  },
});

/** How much load counts against a cached prefix, from 0.1 to 0.9: more as loads differ, less again as every worker fills up. */
class LoadWeight {
  readonly loadScale: number;
  readonly #intervalMs: number;
  #weight = 0;
  #setAt = Number.NEGATIVE_INFINITY;

  constructor(intervalMs: number, loadScale: number) {
    this.#intervalMs = intervalMs;
    this.loadScale = loadScale;
  }

  /** The weight now: set anew from the extremes of this decision where the last setting is an interval old, else as it was. */
  at(nowMs: number, fewest: number, most: number): number {
    if (nowMs - this.#setAt < this.#intervalMs) return this.#weight;
    const imbalance = (most - fewest) / (most + this.loadScale);
    const pressure = fewest / (fewest + this.loadScale);
    const rise = 1 / (1 + Math.exp(-10 * (imbalance - 0.5)));
    // Where all are full, moving work to a cold one adds prefill and makes no room: the cap falls to 0.5.
    const cap = 0.9 - 0.4 * pressure;
    this.#weight = 0.1 + rise * (cap - 0.1);
    this.#setAt = nowMs;
    return this.#weight;
  }
}

/** The lowest of the values offered; the k-th of equals takes over with probability 1/k. */
class LowestDraw {
  row = 0;
  readonly #rng: Rng;
  #value = Number.POSITIVE_INFINITY;
  #ties = 0;

  constructor(rng: Rng) {
    this.#rng = rng;
  }

  start(): void {
    this.#value = Number.POSITIVE_INFINITY;
    this.#ties = 0;
  }

  offer(row: number, value: number): void {
    if (value < this.#value) {
      this.row = row;
      this.#value = value;
      this.#ties = 1;
    } else if (value === this.#value) {
      this.#ties += 1;
      if (this.#rng.integer(this.#ties) === 0) this.row = row;
    }
  }
}

/** Smallest and largest of the first `count` values; there is at least one. */
function extremes(column: Column, count: number): readonly [smallest: number, largest: number] {
  let smallest = column[0]!;
  let largest = smallest;
  for (let row = 1; row < count; row += 1) {
    const value = column[row]!;
    if (value < smallest) smallest = value;
    else if (value > largest) largest = value;
  }
  return [smallest, largest];
}
