// The declared form of the default cost: a policy names the weights and the host evaluates the formula on its own columns,
// without a callback per decision. Formula and source: src/policies/dynamo-default-cost-fn/README.md.
import type { Commitment } from './define.ts';
import type { WorkerInput } from './inputs.ts';

/** Weights of the default cost, in the names of its YAML parameters, so that parsed parameters can be handed on as they are. */
export interface LinearCostWeights {
  /** Credit per block cached on the device; default 1. 0 also means that no index is asked. */
  readonly overlap_score_credit?: number;
  /** How fast device credit shrinks with prefill tokens queued beyond the idlest candidate; default 0 = not. */
  readonly overlap_score_credit_decay?: number;
  /** Weight of a prompt block to prefill against a block held in decode; default 1. */
  readonly prefill_load_scale?: number;
  /** Blocks per active request; default 0. */
  readonly decode_active_request_weight?: number;
  /** Credit per block on the host tier; default 0.75. */
  readonly host_cache_hit_weight?: number;
  /** Credit per block on the disk and external tiers; default 0.25. */
  readonly disk_cache_hit_weight?: number;
  /** Credit per block in a shared cache; default 0. Without a shared cache there are no such blocks. */
  readonly shared_cache_multiplier?: number;
  /** 0 = lowest cost, ties at random; above = softmax over range-normalised costs. Default 0. */
  readonly router_temperature?: number;
  /**
   * Whether blocks that bookings of a candidate hold, computed there or about to be, count as cached on its device; default false.
   * Where they reach into blocks of the host tier, these count once.
   */
  readonly in_flight_blocks?: boolean | undefined;
  /** Seed of ties and sampling, a u64; without it the host's own. */
  readonly seed?: number | bigint | undefined;
}

/** A declared cost. Made by {@link linearCost} or {@link linearCostWithCopies}. `C` = the commitments its choices may make. */
export interface LinearCost<out C extends Commitment = never> {
  readonly component: 'linear-cost';
  readonly inputs: readonly WorkerInput[];
  readonly weights: Readonly<Record<LinearCostWeight, number>>;
  /** Whether blocks in flight count. */
  readonly inFlight: boolean;
  readonly seed: number | bigint | null;
  readonly commits: readonly C[];
}

const DEFAULT_WEIGHTS = {
  overlap_score_credit: 1,
  overlap_score_credit_decay: 0,
  prefill_load_scale: 1,
  decode_active_request_weight: 0,
  host_cache_hit_weight: 0.75,
  disk_cache_hit_weight: 0.25,
  shared_cache_multiplier: 0,
  router_temperature: 0,
} as const;

/** Largest weight: far beyond any use, and no sum over a fleet's loads leaves the range of doubles. */
export const MAX_LINEAR_COST_WEIGHT = 1e9;

/** Name of a weight. */
export type LinearCostWeight = keyof typeof DEFAULT_WEIGHTS;

/** Every weight, in the order of the formula. */
export const LINEAR_COST_WEIGHTS: readonly LinearCostWeight[] = Object.freeze(
  Object.keys(DEFAULT_WEIGHTS) as LinearCostWeight[],
);

/**
 * Declares the default cost formula with these weights, as the `cost` of a worker-selection policy.
 * @throws RangeError when a weight is not a number from 0 to {@link MAX_LINEAR_COST_WEIGHT}.
 */
export function linearCost(options: LinearCostWeights = {}): LinearCost {
  const weights: Record<LinearCostWeight, number> = { ...DEFAULT_WEIGHTS };
  for (const name of LINEAR_COST_WEIGHTS) {
    const value = options[name] ?? weights[name];
    if (typeof value !== 'number' || !(value >= 0 && value <= MAX_LINEAR_COST_WEIGHT)) {
      throw new RangeError(`linearCost: ${name} must be a number from 0 to 1e9, got ${String(value)}`);
    }
    weights[name] = value;
  }
  const inputs: WorkerInput[] = ['load', 'preferred-taint'];
  if (weights.overlap_score_credit > 0) inputs.unshift('cache');
  // Without credit for the device nothing is to be had from them.
  const inFlight = options.in_flight_blocks === true && weights.overlap_score_credit > 0;
  if (inFlight) inputs.push('in-flight-blocks');
  return Object.freeze({
    component: 'linear-cost',
    inputs: Object.freeze(inputs),
    weights: Object.freeze(weights),
    inFlight,
    seed: options.seed ?? null,
    commits: [],
  });
}

/**
 * The same formula with `shared_cache_multiplier` crediting blocks that a peer could copy to the candidate; the choice commits
 * that copy. 0 credits and commits nothing. For a policy with the commitment `kv-copy`.
 * @throws RangeError as {@link linearCost}.
 */
export function linearCostWithCopies(options: LinearCostWeights = {}): LinearCost<'kv-copy'> {
  const cost = linearCost(options);
  if (cost.weights.shared_cache_multiplier === 0) return cost;
  const inputs: readonly WorkerInput[] = Object.freeze([...cost.inputs, 'kv-copy-locations' as const]);
  return Object.freeze({ ...cost, inputs, commits: ['kv-copy'] as const });
}
