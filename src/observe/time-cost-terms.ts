// The terms of the cost in time, recomputed from what was recorded when somebody asks. The formula stands in the README of the policy
// pointsman-expected-time; tests hold this to costs of the host. A term that comes to it is one more entry of TERMS.
import { DECODE_BEND, type TimeCost, type WorkerTiming } from '../plugin/index.ts';

/** What the cost in time reads of a candidate beside blocks, kind and taint: its column, by its name in records. */
export const TIME_INPUTS = {
  in_flight_blocks: 'inFlightBlocks',
  prefill_requests: 'prefillRequests',
  prefill_tokens: 'prefillTokens',
  prefill_attention: 'prefillAttention',
  prefill_front_ms: 'prefillFrontMs',
  decode_requests: 'decodeRequests',
  booked_prompt_tokens: 'bookedPromptTokens',
} as const;

/** Name of one in a record. */
export type TimeInputName = keyof typeof TIME_INPUTS;
/** Its column. */
export type TimeColumn = (typeof TIME_INPUTS)[TimeInputName];
/** Their values for one candidate. */
export type TimeInputs = Readonly<Record<TimeInputName, number>>;

/** What a decision has in common for all its candidates. */
export interface TimeTermFacts {
  readonly cost: TimeCost;
  readonly promptTokens: number;
  readonly blockSize: number;
  /** Tokens of the answer, finished ones' mean or foreseen; null = neither is known. */
  readonly outputTokens: number | null;
  /** Times of the kinds of workers; null = the policy states all. */
  readonly timings: readonly WorkerTiming[] | null;
}

/** One candidate. Blocks are those of its tiers. */
export interface TimedCandidate {
  readonly device: number;
  readonly host: number;
  readonly taint: number;
  /** Position of its kind in `timings`. */
  readonly kind: number;
  readonly inputs: TimeInputs;
}

/** A term; it adds `ms` × `weight`. */
export interface TimeTerm {
  readonly ms: number;
  readonly weight: number;
}

/** What the terms are made from. */
interface Reckoning {
  readonly weights: TimeCost['weights'];
  readonly queueMs: number;
  /** 0 = nothing is read from the host tier. */
  readonly hostBlocks: number;
  readonly readMs: number;
  readonly prefillMs: number;
  readonly prefillWeight: number;
  /** Ms of the wait and the computing beyond the target. */
  readonly lateMs: number;
  readonly decodeMs: number;
}

/** The terms in the order in which people read them; null = it has no part in this cost. */
const TERMS = {
  queue: ({ queueMs }) => ({ ms: queueMs, weight: 1 }),
  // Blocks are read while others compute: what counts is how much longer that takes.
  host_read: ({ hostBlocks, queueMs, readMs }) =>
    hostBlocks > 0 ? { ms: Math.max(0, readMs - queueMs), weight: 1 } : null,
  prefill: ({ prefillMs, prefillWeight }) => ({ ms: prefillMs, weight: prefillWeight }),
  late: ({ lateMs, weights }) => (lateMs > 0 ? { ms: lateMs, weight: weights.late_weight } : null),
  decode: ({ decodeMs, weights }) => ({ ms: decodeMs, weight: weights.decode_weight }),
} satisfies Record<string, (reckoning: Reckoning) => TimeTerm | null>;

/** Name of a term. */
export type TimeTermName = keyof typeof TERMS;

/** All names, in that order. */
export const TIME_TERM_NAMES: readonly TimeTermName[] = Object.keys(TERMS) as TimeTermName[];

/** Terms such that cost = (sum of `ms` × `weight` over `parts`) × `taint`; times in ms. */
export interface TimeTerms {
  /** A term that has no part in the cost is absent. */
  readonly parts: { readonly [Name in TimeTermName]?: TimeTerm };
  readonly taint: number;
  readonly total: number;
  /** Prompt tokens to compute. */
  readonly computed_tokens: number;
  /** Blocks to read from the host tier. */
  readonly host_blocks: number;
}

/** Null where a time was learnt that is not recorded. */
export function timeTerms(facts: TimeTermFacts, candidate: TimedCandidate): TimeTerms | null {
  const times = timesOf(facts, candidate.kind);
  if (times === null) return null;
  const { weights } = facts.cost;
  const { inputs, taint } = candidate;
  const queueMs = queueOf(inputs, times);
  const prefillWeight =
    weights.prefill_weight +
    weights.interference_weight * inputs.decode_requests +
    weights.waiting_weight * inputs.prefill_requests;
  const prefill = prefillOf(facts, candidate, times, queueMs, prefillWeight);
  const outputs = facts.outputTokens ?? weights.default_output_tokens;
  const reckoning: Reckoning = {
    ...prefill,
    weights,
    queueMs,
    prefillWeight,
    decodeMs: outputs * outputTokenMs(facts, inputs, times),
  };
  const parts: { [Name in TimeTermName]?: TimeTerm } = {};
  let sum = 0;
  for (const name of TIME_TERM_NAMES) {
    const term = TERMS[name](reckoning);
    if (term === null) continue;
    parts[name] = term;
    sum += term.ms * term.weight;
  }
  const { computedTokens: computed_tokens, hostBlocks: host_blocks } = prefill;
  return { parts, taint, total: sum * taint, computed_tokens, host_blocks };
}

/** The times of a kind of workers, ms. */
interface Times {
  readonly token: number;
  readonly attention: number;
  readonly decode: number;
  readonly fill: number;
}

function timesOf({ cost, timings }: TimeTermFacts, kind: number): Times | null {
  const learnt = timings?.[kind];
  const { attention_ns_per_pair, decode_fill_ms, decode_ms, prefill_us_per_token } = cost.timing;
  const token = prefill_us_per_token === null ? learnt?.prefillTokenMs : prefill_us_per_token / 1e3;
  const attention = attention_ns_per_pair === null ? learnt?.prefillAttentionMs : attention_ns_per_pair / 1e6;
  const decode = decode_ms ?? learnt?.decodeMs;
  const fill = decode_fill_ms ?? learnt?.decodeFillMs;
  if (token === undefined || attention === undefined || decode === undefined || fill === undefined)
    return null;
  return { token, attention, decode, fill };
}

/** Ms until the prompts that wait on a worker are computed, less what is done of the one at the front. */
function queueOf(inputs: TimeInputs, { attention, token }: Times): number {
  const requests = inputs.prefill_requests;
  if (requests === 0) return 0;
  const sum = token * inputs.prefill_tokens + attention * inputs.prefill_attention;
  return Math.max(0, sum - Math.min(inputs.prefill_front_ms, sum / requests));
}

/** What is computed, and what is read for that: the lesser of computing all that is not on the device and reading what the host has. */
function prefillOf(
  { blockSize, cost: { weights }, promptTokens }: TimeTermFacts,
  { device, host, inputs }: TimedCandidate,
  { attention, token }: Times,
  queueMs: number,
  weight: number,
) {
  const computing = (blocks: number) => {
    const cached = Math.min(blockSize * blocks, promptTokens - 1);
    const computedTokens = promptTokens - cached;
    const prefillMs = computedTokens * (token + attention * (cached + computedTokens / 2));
    return { computedTokens, prefillMs };
  };
  const held = Math.max(device, inputs.in_flight_blocks);
  const hostBlocks = Math.max(0, device + host - held);
  const readMs = (hostBlocks * blockSize * weights.kv_bytes_per_token * 8) / (weights.host_gbps * 1e6);
  const without = computing(held);
  const reading = computing(held + hostBlocks);
  const late = (waitMs: number, { prefillMs }: { readonly prefillMs: number }) =>
    Math.max(0, waitMs + prefillMs - weights.ttft_target_ms);
  const cost = (waitMs: number, one: { readonly prefillMs: number }) =>
    waitMs + weight * one.prefillMs + weights.late_weight * late(waitMs, one);
  const readWaitMs = Math.max(queueMs, readMs);
  return cost(readWaitMs, reading) < cost(queueMs, without)
    ? { ...reading, hostBlocks, readMs, lateMs: late(readWaitMs, reading) }
    : { ...without, hostBlocks: 0, readMs: 0, lateMs: late(queueMs, without) };
}

/** Ms of an output token beside the prompts that are booked, this one among them. */
function outputTokenMs(
  { cost: { weights }, promptTokens }: TimeTermFacts,
  inputs: TimeInputs,
  { decode, fill }: Times,
): number {
  const full = Math.min(1, (inputs.booked_prompt_tokens + promptTokens) / weights.kv_reference_tokens);
  return decode + fill * full * (1 - DECODE_BEND * full);
}
