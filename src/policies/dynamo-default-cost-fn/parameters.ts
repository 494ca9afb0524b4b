// Parameters of the default cost, shared by the policies that decide by it.
import { z } from 'zod';
import { MAX_LINEAR_COST_WEIGHT } from '../../plugin/index.ts';

const U64_MAX = 2n ** 64n - 1n;

/** A weight of the formula. */
export const weight = z.number().min(0).max(MAX_LINEAR_COST_WEIGHT);

/** The parameters with their defaults. */
export const costParameters = z.strictObject({
  overlap_score_credit: weight.default(1),
  overlap_score_credit_decay: weight.default(0),
  prefill_load_scale: weight.default(1),
  decode_active_request_weight: weight.default(0),
  host_cache_hit_weight: weight.default(0.75),
  disk_cache_hit_weight: weight.default(0.25),
  shared_cache_multiplier: weight.default(0),
  router_temperature: weight.default(0),
  seed: z.union([z.int().min(0), z.bigint().min(0n).max(U64_MAX)]).optional(),
});
