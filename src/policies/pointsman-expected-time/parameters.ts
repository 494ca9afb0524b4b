// Parameters of the cost in time.
import { z } from 'zod';

const factor = z.number().min(0).max(1e6);
const positive = z.number().positive().max(1e9);

const timing = z.strictObject({
  prefill_us_per_token: positive.optional(),
  attention_ns_per_pair: factor.optional(),
  decode_ms: positive.optional(),
  decode_fill_ms: factor.optional(),
});

/** Times that an operator states; the others are learnt. */
export type StatedTiming = z.infer<typeof timing>;

/** The parameters with their defaults. */
export const expectedTimeParameters = z.strictObject({
  prefill_weight: factor.default(4),
  interference_weight: factor.default(0.03),
  decode_weight: factor.default(0.1),
  default_output_tokens: z.int().min(1).max(1e9).default(256),
  kv_reference_tokens: positive.default(1_048_576),
  timing: timing.default({}),
  kv_bytes_per_token: positive.default(131_072),
  host_gbps: positive.default(200),
});

/** Parsed parameters. */
export type ExpectedTimeParameters = z.infer<typeof expectedTimeParameters>;
