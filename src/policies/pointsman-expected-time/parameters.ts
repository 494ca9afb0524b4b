// Parameters of the cost in time, and the coefficients of the times that they state.
import { z } from 'zod';

const factor = z.number().min(0).max(1e6);
const positive = z.number().positive().max(1e9);

/** Times of one kind of worker, in ms. */
export interface TimingCoefficients {
  /** Computing one prompt token. */
  readonly tokenMs: number;
  /** Attention of one prompt token over one other. */
  readonly attentionMs: number;
  /** One pass with an empty KV pool. */
  readonly decodeMs: number;
  /** What a pass takes longer as the pool fills up: this × x × (1 − x × `DECODE_BEND`), x from 0 to 1. */
  readonly decodeFillMs: number;
}

/** Share of the slope that a full pool takes back. */
export const DECODE_BEND = 25.74 / 54.01;

/** Polynomial of the Dynamo mocker for an 8B model: what the fit starts from, on the slow side. */
export const START_TIMING: TimingCoefficients = {
  tokenMs: 1.518344e-2,
  attentionMs: 8.419978e-7,
  decodeMs: 5.74,
  decodeFillMs: 54.01,
};

/** The parameters with their defaults. */
export const expectedTimeParameters = z.strictObject({
  prefill_weight: factor.default(4),
  interference_weight: factor.default(0.03),
  decode_weight: factor.default(0.1),
  kv_reference_tokens: positive.default(1_048_576),
  default_output_tokens: z.int().min(1).max(1_000_000_000).default(256),
  timing: z
    .strictObject({
      prefill_us_per_token: positive,
      attention_ns_per_token_pair: factor,
      decode_ms: positive,
      decode_fill_ms: factor,
    })
    .partial()
    .default({}),
  kv_bytes_per_token: positive.default(131_072),
  host_gbps: positive.default(200),
});
