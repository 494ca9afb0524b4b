// The terms of the cost in time, recomputed from what was recorded when somebody asks. The formula stands in the README of the policy
// pointsman-expected-time; tests hold this to costs of the host. A term that comes to it is one more entry of TERMS.
import {
  DECODE_BEND,
  expectedCopyMs,
  type MeasuredLink,
  type TimeCost,
  type WorkerTiming,
} from '../plugin/index.ts';

/** What the cost in time reads of a candidate beside blocks of tiers and peers, kind and taint: its column, by its name in records. */
export const TIME_INPUTS = {
  in_flight_blocks: 'inFlightBlocks',
  prefill_requests: 'prefillRequests',
  prefill_tokens: 'prefillTokens',
  prefill_attention: 'prefillAttention',
  prefill_front_ms: 'prefillFrontMs',
  decode_requests: 'decodeRequests',
  booked_prompt_tokens: 'bookedPromptTokens',
  cache_pressure: 'cachePressure',
  source_prefix_blocks: 'sourcePrefixBlocks',
} as const;

/** Name of one in a record. */
export type TimeInputName = keyof typeof TIME_INPUTS;
/** Its column. */
export type TimeColumn = (typeof TIME_INPUTS)[TimeInputName];
/** Those that only costs which count on copies, or on what pools are full of, read. */
type SomeInputName = 'source_prefix_blocks' | 'cache_pressure';
/** Their values for one candidate. */
export type TimeInputs = Readonly<
  Record<Exclude<TimeInputName, SomeInputName>, number> & Partial<Record<SomeInputName, number>>
>;

const ALL_NAMES = Object.keys(TIME_INPUTS) as TimeInputName[];
/** Names by whether copies count, and whether the pressure on KV pools does. */
const NAMES = [true, false].map((copies) =>
  [true, false].map((pressure) =>
    ALL_NAMES.filter(
      (name) => (copies || name !== 'source_prefix_blocks') && (pressure || name !== 'cache_pressure'),
    ),
  ),
);

/** Names of those that a cost reads. */
export function timeInputNames({ peerCopies, weights }: TimeCost): readonly TimeInputName[] {
  return NAMES[peerCopies ? 0 : 1]?.[weights.crowding_weight > 0 ? 0 : 1] ?? ALL_NAMES;
}

/** What a decision has in common for all its candidates. */
export interface TimeTermFacts {
  readonly cost: TimeCost;
  readonly promptTokens: number;
  readonly blockSize: number;
  /** Tokens of the answer, finished ones' mean or foreseen; null = neither is known. */
  readonly outputTokens: number | null;
  /** Times of the kinds of workers; null = the policy states all. */
  readonly timings: readonly WorkerTiming[] | null;
  /** What copies took lately; null = none was measured. Read of costs that count on copies. */
  readonly copyLink: MeasuredLink | null;
}

/** One candidate. Blocks are those of its tiers. */
export interface TimedCandidate {
  readonly device: number;
  readonly host: number;
  /** Blocks beyond these that a peer could copy to it. */
  readonly shared: number;
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

/** A way to the first token: what is fetched, and what is computed then. */
interface Way {
  readonly computedTokens: number;
  readonly prefillMs: number;
  /** 0 = nothing is read from the host tier. */
  readonly hostBlocks: number;
  readonly readMs: number;
  /** 0 = nothing is copied from a peer. */
  readonly copiedBlocks: number;
  readonly copyMs: number;
}

/** What the terms are made from. */
interface Reckoning extends Way {
  readonly weights: TimeCost['weights'];
  readonly queueMs: number;
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
  peer_copy: ({ copiedBlocks, copyMs, weights }) =>
    copiedBlocks > 0 ? { ms: copyMs, weight: weights.peer_weight } : null,
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
  /** Tokens of the answer that `decode` is for. */
  readonly output_tokens: number;
  /** Blocks to read from the host tier. */
  readonly host_blocks: number;
  /** Blocks to copy from a peer. */
  readonly copied_blocks: number;
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
    weights.waiting_weight * inputs.prefill_requests +
    weights.crowding_weight * (inputs.cache_pressure ?? 0);
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
  const { computedTokens: computed_tokens, copiedBlocks: copied_blocks, hostBlocks: host_blocks } = prefill;
  return {
    ...{ parts, taint, total: sum * taint, computed_tokens },
    ...{ output_tokens: outputs, host_blocks, copied_blocks },
  };
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

/** What is computed, and what is fetched for that: of the ways there are the one that costs the least, with what of it is late. */
function prefillOf(
  facts: TimeTermFacts,
  candidate: TimedCandidate,
  times: Times,
  queueMs: number,
  weight: number,
): Way & { readonly lateMs: number } {
  const { late_weight, peer_weight, ttft_target_ms } = facts.cost.weights;
  // Reading goes on while others compute; copies are made where nobody does.
  const late = ({ copyMs, prefillMs, readMs }: Way) =>
    Math.max(0, Math.max(queueMs, readMs, copyMs) + prefillMs - ttft_target_ms);
  const cost = (way: Way) =>
    Math.max(queueMs, way.readMs) +
    peer_weight * way.copyMs +
    weight * way.prefillMs +
    late_weight * late(way);
  const best = waysOf(facts, candidate, times, queueMs).reduce((least, way) =>
    cost(way) < cost(least) ? way : least,
  );
  return { ...best, lateMs: late(best) };
}

/** The ways there are, of which fetching nothing is the first. */
function waysOf(
  { blockSize, copyLink, cost: { peerCopies, weights }, promptTokens }: TimeTermFacts,
  { device, host, inputs, shared }: TimedCandidate,
  { attention, token }: Times,
  queueMs: number,
): readonly Way[] {
  const computing = (blocks: number): Way => {
    const cached = Math.min(blockSize * blocks, promptTokens - 1);
    const computedTokens = promptTokens - cached;
    const prefillMs = computedTokens * (token + attention * (cached + computedTokens / 2));
    return { computedTokens, prefillMs, hostBlocks: 0, readMs: 0, copiedBlocks: 0, copyMs: 0 };
  };
  // Bits over bits per ms.
  const msOf = (blocks: number, gbps: number) =>
    (blocks * blockSize * weights.kv_bytes_per_token * 8) / (gbps * 1e6);
  const own = device + host;
  const held = Math.max(device, inputs.in_flight_blocks);
  const ways = [computing(held)];
  if (own > held) {
    const hostBlocks = own - held;
    ways.push({ ...computing(own), hostBlocks, readMs: msOf(hostBlocks, weights.host_gbps) });
  }
  const source = inputs.source_prefix_blocks ?? 0;
  // Copies count where they begin at once and are faster than computing what they bring.
  if (peerCopies && shared >= 1 && source > held && queueMs === 0) {
    const statedMs = weights.peer_latency_ms + msOf(shared, weights.peer_gbps);
    const copyMs = expectedCopyMs(copyLink, shared, statedMs);
    const rest = computing(source);
    if (copyMs < computing(own).prefillMs - rest.prefillMs)
      ways.push({ ...rest, copiedBlocks: shared, copyMs });
  }
  return ways;
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
