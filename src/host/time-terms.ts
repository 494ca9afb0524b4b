// What the cost in time has in common for all rows of a decision whose workers are of one kind, as numbers that the loops over rows
// multiply and add. The formula stands in the README of pointsman-expected-time; here it is written out in powers of what differs by row.
import { DECODE_BEND, type TimeCost, type WorkerTiming } from '../plugin/index.ts';
import type { SelectionFacts } from './types.ts';

/** How many there are. */
export const TIME_TERMS = 17;

/** Ms to compute the whole prompt. */
export const FULL = 0;
/** Ms to compute its last token, the least that is computed. */
export const FLOOR = 1;
/** Ms that a block found spares, and per block squared, so that b blocks spare b × (BLOCK + PAIRS × b). */
export const BLOCK = 2;
export const PAIRS = 3;
/** Ms per token and per pair of tokens of prompts that wait. */
export const TOKEN = 4;
export const ATTENTION = 5;
/** What a ms of computing costs, and more per request in decode. */
export const PREFILL = 6;
export const DECODES = 7;
/** Booked prompt tokens from which the pool is full, this prompt not counted. */
export const ROOM = 8;
/** Weighed ms of all output tokens with z such tokens: IDLE + z × (SLOPE − BEND × z). */
export const IDLE = 9;
export const SLOPE = 10;
export const BEND = 11;
/** Ms to read a block from the host tier. */
export const READ = 12;

/** What a ms of computing costs more per prompt that waits. */
export const WAITS = 13;
/**
 * What a ms to the first token costs on top for being late: LATE × ms − EARLY, at least IDLE, which stands for nothing late. So the output
 * tokens on an idle worker need no sum of their own.
 */
export const LATE = 14;
export const EARLY = 15;
/** What a ms of computing costs more per pressure on the KV pool. */
export const CROWDS = 16;

/** Twice the polynomials of the Dynamo mocker for an 8B model, ms: for hosts that have learnt nothing. */
const START = {
  prefillTokenMs: 2 * 1.518344e-2,
  prefillAttentionMs: 2 * 8.419978e-7,
  decodeMs: 2 * 5.74,
  decodeFillMs: 2 * 54.01,
} as const;

/** The least part of what waits that is behind the prompt at the front, of which at most the mean is done: of so many prompts. */
export function shareBehind(prompts: number): number {
  return prompts > 0 ? 1 - 1 / prompts : 0;
}

/** What a time to the first token costs for being late, and IDLE. */
export function lateness(terms: Float64Array, ttftMs: number): number {
  return Math.max(terms[LATE]! * ttftMs - terms[EARLY]!, terms[IDLE]!);
}

/** Facts of the request that the formula reads. */
export type TimeFacts = Pick<SelectionFacts, 'promptTokens' | 'blockSize' | 'expectedOutputTokens'>;

/**
 * Writes the terms.
 * @param learnt times of the kind of worker, for those that are not stated; undefined = nothing is learnt.
 * @param averageOutputTokens mean of finished answers; null = none has finished.
 */
export function writeTimeTerms(
  terms: Float64Array,
  { timing, weights }: TimeCost,
  learnt: WorkerTiming | undefined,
  { promptTokens, blockSize, expectedOutputTokens }: TimeFacts,
  averageOutputTokens: number | null,
): void {
  const known = learnt ?? START;
  const { prefill_us_per_token, attention_ns_per_pair, decode_ms, decode_fill_ms } = timing;
  const tokenMs = prefill_us_per_token === null ? known.prefillTokenMs : prefill_us_per_token / 1e3;
  const attentionMs = attention_ns_per_pair === null ? known.prefillAttentionMs : attention_ns_per_pair / 1e6;
  const decodeMs = decode_ms === null ? known.decodeMs : decode_ms;
  const fillMs = decode_fill_ms === null ? known.decodeFillMs : decode_fill_ms;
  const reference = weights.kv_reference_tokens;
  const halfMs = attentionMs / 2;
  // n = prompt − c tokens after c take n × (tokenMs + halfMs × (2c + n)) = n × (tokenMs + halfMs × (prompt + c)).
  terms[FULL] = promptTokens * (tokenMs + halfMs * promptTokens);
  terms[FLOOR] = tokenMs + halfMs * (2 * promptTokens - 1);
  terms[BLOCK] = blockSize * tokenMs;
  terms[PAIRS] = blockSize * blockSize * halfMs;
  terms[TOKEN] = tokenMs;
  terms[ATTENTION] = attentionMs;
  terms[PREFILL] = weights.prefill_weight;
  terms[DECODES] = weights.interference_weight;
  terms[WAITS] = weights.waiting_weight;
  terms[CROWDS] = weights.crowding_weight;
  // A prompt beyond the pool fills it alone.
  const own = promptTokens < reference ? promptTokens : reference;
  const outputs =
    weights.decode_weight * (averageOutputTokens ?? expectedOutputTokens ?? weights.default_output_tokens);
  const perTokenMs = (outputs * fillMs) / reference;
  const bendMs = (DECODE_BEND * perTokenMs) / reference;
  terms[ROOM] = reference - own;
  const idle = outputs * decodeMs + own * (perTokenMs - bendMs * own);
  const late = weights.late_weight;
  terms[IDLE] = idle;
  terms[LATE] = late;
  terms[EARLY] = late * weights.ttft_target_ms - idle;
  terms[SLOPE] = perTokenMs - 2 * bendMs * own;
  terms[BEND] = bendMs;
  // Bits over bits per ms.
  terms[READ] = (blockSize * weights.kv_bytes_per_token * 8) / (weights.host_gbps * 1e6);
}
