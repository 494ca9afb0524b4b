// The default cost of the Dynamo KV router as a declared cost: prompt blocks still to prefill, less credit for cached ones, plus
// blocks in decode. The formula stands in README.md; the host evaluates it.
import { z } from 'zod';
import {
  defineWorkerSelectionPolicy,
  linearCost,
  MAX_LINEAR_COST_WEIGHT,
  type WorkerSelectionPolicyDefinition,
} from '../../plugin/index.ts';

const weight = z.number().min(0).max(MAX_LINEAR_COST_WEIGHT);
const U64_MAX = 2n ** 64n - 1n;

/** `dynamo-default-cost-fn`: the policy of every role that names no other. */
export const dynamoDefaultCostFn: WorkerSelectionPolicyDefinition = defineWorkerSelectionPolicy({
  type: 'dynamo-default-cost-fn',
  exclusiveAffinity: true,
  parameters: z.strictObject({
    overlap_score_credit: weight.default(1),
    overlap_score_credit_decay: weight.default(0),
    prefill_load_scale: weight.default(1),
    decode_active_request_weight: weight.default(0),
    host_cache_hit_weight: weight.default(0.75),
    disk_cache_hit_weight: weight.default(0.25),
    shared_cache_multiplier: weight.default(0),
    router_temperature: weight.default(0),
    seed: z.union([z.int().min(0), z.bigint().min(0n).max(U64_MAX)]).optional(),
  }),
  create: ({ parameters }) => ({ cost: linearCost(parameters) }),
});
