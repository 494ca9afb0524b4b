// Coefficients of the times that a decision reckons with: what the parameters state, else what was learnt, else where learning starts.
import type { TimingColumns } from '../../plugin/index.ts';
import type { StatedTiming } from './parameters.ts';

/** Twice the polynomials of the Dynamo mocker for an 8B model, ms: for hosts that have learnt nothing. */
const START = {
  tokenMs: 2 * 1.518344e-2,
  attentionMs: 2 * 8.419978e-7,
  decodeMs: 2 * 5.74,
  decodeFillMs: 2 * 54.01,
} as const;

/** Coefficients of one kind of worker, in ms; one object is reused by all decisions. */
export interface Times {
  tokenMs: number;
  attentionMs: number;
  decodeMs: number;
  decodeFillMs: number;
}

/** Coefficients before anything was learnt. */
export function statedTimes(stated: StatedTiming): Times {
  return {
    tokenMs: stated.prefill_us_per_token === undefined ? START.tokenMs : stated.prefill_us_per_token / 1e3,
    attentionMs:
      stated.attention_ns_per_pair === undefined ? START.attentionMs : stated.attention_ns_per_pair / 1e6,
    decodeMs: stated.decode_ms ?? START.decodeMs,
    decodeFillMs: stated.decode_fill_ms ?? START.decodeFillMs,
  };
}

/** Whether nothing is left to learn. */
export function statesAll(stated: StatedTiming): boolean {
  return Object.values(stated).filter((value) => value !== undefined).length === 4;
}

/** Takes over what was learnt of a kind and is not stated. */
export function learnTimes(times: Times, { kinds }: TimingColumns, kind: number, stated: StatedTiming): void {
  const learnt = kinds[kind];
  if (learnt === undefined) return;
  if (stated.prefill_us_per_token === undefined) times.tokenMs = learnt.prefillTokenMs;
  if (stated.attention_ns_per_pair === undefined) times.attentionMs = learnt.prefillAttentionMs;
  if (stated.decode_ms === undefined) times.decodeMs = learnt.decodeMs;
  if (stated.decode_fill_ms === undefined) times.decodeFillMs = learnt.decodeFillMs;
}
