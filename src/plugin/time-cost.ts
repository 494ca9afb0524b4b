// The declared form of a cost in time: a policy names weights and the times it knows, and the host evaluates the formula on its own
// columns, without a callback per decision. Formula: src/policies/pointsman-expected-time/README.md.
import type { WorkerInput } from './inputs.ts';

/** Times that are stated rather than learnt; 0 or more, and at most 1e9. */
export interface StatedTiming {
  /** µs to compute a prompt token. */
  readonly prefill_us_per_token?: number | undefined;
  /** ns of one prompt token looking at one other. */
  readonly attention_ns_per_pair?: number | undefined;
  /** ms of an output token on an idle worker. */
  readonly decode_ms?: number | undefined;
  /** ms by which that grows as the KV pool fills. */
  readonly decode_fill_ms?: number | undefined;
}

/** Options of {@link timeCost}, in the names of YAML parameters, so that parsed parameters can be handed on as they are. */
export interface TimeCostOptions {
  /** What a ms of computing the prompt costs; default 8, as it also makes those wait that come after it. */
  readonly prefill_weight?: number;
  /** And more for each request in decode on the worker; default 0.03. */
  readonly interference_weight?: number;
  /** And more for each prompt that waits on the worker; default 1.5. */
  readonly waiting_weight?: number;
  /** And more, times the input `cache-pressure`: what is computed on a full KV pool makes it forget what will be asked for again; default 1. */
  readonly crowding_weight?: number;
  /** What a ms of time to the first token costs on top, beyond `ttft_target_ms`; default 3. */
  readonly late_weight?: number;
  /** Time to the first token, in ms, from which it counts as late; default 3,000. */
  readonly ttft_target_ms?: number;
  /** Weight of the time of all output tokens; default 0.05. */
  readonly decode_weight?: number;
  /** Tokens of an answer until one has finished, and where the request does not foresee them; default 256. */
  readonly default_output_tokens?: number;
  /** Booked prompt tokens that count as a full KV pool, above 0; default 1,048,576. */
  readonly kv_reference_tokens?: number;
  /** Bytes of KV per token, for reading from the host tier and for copies; default 131,072. */
  readonly kv_bytes_per_token?: number;
  /** Gbit/s from host memory to the device, above 0; default 200. */
  readonly host_gbps?: number;
  /**
   * Whether blocks that a peer could send count where no prompt waits and copying is faster than computing; default false. For roles
   * whose hint policies have such copies made, as `kv_fetch` with `only_if_faster` does.
   */
  readonly peer_copies?: boolean | undefined;
  /** What a ms of copying costs: it also takes two links from others; default 3. */
  readonly peer_weight?: number;
  /** Gbit/s of a worker's link, each direction, where copies were not measured, above 0; default 100. */
  readonly peer_gbps?: number;
  /** Ms before a copy begins, where they were not measured; default 3. */
  readonly peer_latency_ms?: number;
  /** Times of all workers; what is not stated is learnt per kind of worker. */
  readonly timing?: StatedTiming;
  /** 0 = lowest cost, ties at random; above = softmax over range-normalised costs. Default 0. */
  readonly router_temperature?: number;
  /** Seed of ties and sampling, a u64; without it the host's own. */
  readonly seed?: number | bigint | undefined;
}

/** A declared cost in time. Made by {@link timeCost}. */
export interface TimeCost {
  readonly component: 'time-cost';
  readonly inputs: readonly WorkerInput[];
  readonly weights: Readonly<Record<TimeCostWeight, number>>;
  /** Times that are stated, each null where it is learnt. */
  readonly timing: Readonly<Record<keyof StatedTiming, number | null>>;
  /** Whether copies from peers count. */
  readonly peerCopies: boolean;
  readonly seed: number | bigint | null;
  readonly commits: readonly never[];
}

const DEFAULT_WEIGHTS = {
  prefill_weight: 8,
  interference_weight: 0.03,
  waiting_weight: 1.5,
  crowding_weight: 1,
  late_weight: 3,
  ttft_target_ms: 3000,
  decode_weight: 0.05,
  default_output_tokens: 256,
  kv_reference_tokens: 1_048_576,
  kv_bytes_per_token: 131_072,
  host_gbps: 200,
  peer_weight: 3,
  peer_gbps: 100,
  peer_latency_ms: 3,
  router_temperature: 0,
} as const;
/** What is divided by. */
const ABOVE_ZERO: ReadonlySet<string> = new Set(['kv_reference_tokens', 'host_gbps', 'peer_gbps']);
const MOST = 1e9;

/** Name of a number of {@link TimeCost.weights}. */
export type TimeCostWeight = keyof typeof DEFAULT_WEIGHTS;

/** Every one of them with its default, in the order of the README. */
export const TIME_COST_DEFAULTS: Readonly<Record<TimeCostWeight, number>> = Object.freeze({
  ...DEFAULT_WEIGHTS,
});

/**
 * Declares the cost in time with these weights, as the `cost` of a worker-selection policy. Where all four times are stated, nobody need
 * learn them, and the input `timing` is not asked for.
 * @throws RangeError when a number is none from 0 to 1e9, or is 0 where it must be above.
 * @example
 * defineWorkerSelectionPolicy({ type: 'soonest', create: () => ({ cost: timeCost({ decode_weight: 0.5 }) }) });
 */
export function timeCost(options: TimeCostOptions = {}): TimeCost {
  const weights: Record<TimeCostWeight, number> = { ...DEFAULT_WEIGHTS };
  for (const name of Object.keys(DEFAULT_WEIGHTS) as TimeCostWeight[]) {
    weights[name] = checked(name, options[name] ?? weights[name]);
  }
  const stated = options.timing ?? {};
  const time = (name: keyof StatedTiming) =>
    stated[name] === undefined ? null : checked(`timing.${name}`, stated[name]);
  const timing = {
    prefill_us_per_token: time('prefill_us_per_token'),
    attention_ns_per_pair: time('attention_ns_per_pair'),
    decode_ms: time('decode_ms'),
    decode_fill_ms: time('decode_fill_ms'),
  };
  const inputs: WorkerInput[] = ['cache', 'in-flight-blocks', 'request-phases', 'output-length'];
  if (Object.values(timing).includes(null)) inputs.push('timing');
  if (weights.crowding_weight > 0) inputs.push('cache-pressure');
  inputs.push('preferred-taint');
  const peerCopies = options.peer_copies === true;
  if (peerCopies) inputs.push('kv-copy-locations');
  return Object.freeze({
    component: 'time-cost',
    inputs: Object.freeze(inputs),
    weights: Object.freeze(weights),
    timing: Object.freeze(timing),
    peerCopies,
    seed: options.seed ?? null,
    commits: [],
  });
}

function checked(name: string, value: unknown): number {
  const above = ABOVE_ZERO.has(name);
  if (typeof value !== 'number' || !(value >= 0 && value <= MOST) || (above && value === 0)) {
    const least = above ? 'above 0 and at most' : 'from 0 to';
    throw new RangeError(`timeCost: ${name} must be a number ${least} 1e9, got ${String(value)}`);
  }
  return value;
}
