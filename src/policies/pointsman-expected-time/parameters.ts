// Parameters of the cost in time.
import { z } from 'zod';
import { TIME_COST_DEFAULTS } from '../../plugin/index.ts';

const factor = z.number().min(0).max(1e6);
const positive = z.number().positive().max(1e9);

const timing = z.strictObject({
  prefill_us_per_token: positive.optional(),
  attention_ns_per_pair: factor.optional(),
  decode_ms: positive.optional(),
  decode_fill_ms: factor.optional(),
});

/** The parameters with their defaults. */
export const expectedTimeParameters = z.strictObject({
  prefill_weight: factor.default(TIME_COST_DEFAULTS.prefill_weight),
  interference_weight: factor.default(TIME_COST_DEFAULTS.interference_weight),
  waiting_weight: factor.default(TIME_COST_DEFAULTS.waiting_weight),
  crowding_weight: factor.default(TIME_COST_DEFAULTS.crowding_weight),
  late_weight: factor.default(TIME_COST_DEFAULTS.late_weight),
  ttft_target_ms: factor.default(TIME_COST_DEFAULTS.ttft_target_ms),
  decode_weight: factor.default(TIME_COST_DEFAULTS.decode_weight),
  default_output_tokens: z.int().min(1).max(1e9).default(TIME_COST_DEFAULTS.default_output_tokens),
  kv_reference_tokens: positive.default(TIME_COST_DEFAULTS.kv_reference_tokens),
  timing: timing.default({}),
  kv_bytes_per_token: positive.default(TIME_COST_DEFAULTS.kv_bytes_per_token),
  host_gbps: positive.default(TIME_COST_DEFAULTS.host_gbps),
  peer_copies: z.boolean().default(false),
  peer_weight: factor.default(TIME_COST_DEFAULTS.peer_weight),
  peer_gbps: positive.default(TIME_COST_DEFAULTS.peer_gbps),
  peer_latency_ms: z.number().min(0).max(60_000).default(TIME_COST_DEFAULTS.peer_latency_ms),
});
