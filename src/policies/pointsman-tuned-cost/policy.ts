// The default cost with weights found by measuring, over blocks that are cached or in flight: what others are about to compute on a
// worker counts as cached there. The formula stands in README.md; the host evaluates it.
import { z } from 'zod';
import {
  defineWorkerSelectionPolicy,
  linearCost,
  type WorkerSelectionPolicyDefinition,
} from '../../plugin/index.ts';
import { weight } from '../dynamo-default-cost-fn/parameters.ts';

const parameterSchema = z.strictObject({
  prefill_load_scale: weight.default(8),
  overlap_score_credit: weight.default(4),
  host_cache_hit_weight: weight.default(0.75),
  disk_cache_hit_weight: weight.default(0.25),
  decode_active_request_weight: weight.default(0),
});

/** `pointsman-tuned-cost`: the default formula with prefill weighed 8, a cached block credited 4, and blocks in flight counted. */
export const pointsmanTunedCost: WorkerSelectionPolicyDefinition = defineWorkerSelectionPolicy({
  type: 'pointsman-tuned-cost',
  exclusiveAffinity: true,
  parameters: parameterSchema,
  create: ({ parameters }) => ({ cost: linearCost({ ...parameters, in_flight_blocks: true }) }),
});
