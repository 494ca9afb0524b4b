// The default cost with weights found by measuring, over blocks that are cached or in flight: what others are about to compute on a
// worker counts as cached there. The formula stands in README.md.
import { z } from 'zod';
import {
  defineWorkerSelectionPolicy,
  pickLowestCost,
  scoreWorkers,
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
  create: ({ parameters, role, rng }) => ({
    scorers: [
      scoreWorkers({
        inputs: ['cache', 'load', 'in-flight-blocks', 'preferred-taint'],
        score({ cache, count, inFlightBlocks, load, preferredTaintMultiplier }, costs, request) {
          const { blockSize, promptTokens, tracksPrefillTokens } = request;
          const { activePrefillTokens, activeRequests, available, decodeCostBlocks } = load;
          // An approximate index knows estimates alone; then they stand for the device.
          const deviceBlocks = cache.hasTierMatches ? cache.deviceBlocks : cache.effectiveOverlapBlocks;
          const { hostBlocks, diskBlocks } = cache;
          const { overlap_score_credit, host_cache_hit_weight, disk_cache_hit_weight } = parameters;
          const { prefill_load_scale, decode_active_request_weight } = parameters;
          const creditsDecode = role === 'decode' && !tracksPrefillTokens;
          for (let row = 0; row < count; row += 1) {
            const onDevice = deviceBlocks[row]!;
            let device = inFlightBlocks[row]!;
            if (device < onDevice) device = onDevice;
            let host = onDevice + hostBlocks[row]! - device;
            if (host < 0) host = 0;
            const credit =
              overlap_score_credit * device +
              host_cache_hit_weight * host +
              disk_cache_hit_weight * diskBlocks[row]!;
            const requests = decode_active_request_weight * activeRequests[row]!;
            let cost: number;
            if (creditsDecode) cost = Math.max(0, decodeCostBlocks[row]! - credit) + requests;
            else {
              let tokens = 0;
              if (tracksPrefillTokens)
                tokens = available[row]! > 0 ? activePrefillTokens[row]! + promptTokens : promptTokens;
              let left = tokens / blockSize - credit;
              if (left < 0) left = 0;
              cost = prefill_load_scale * left + decodeCostBlocks[row]! + requests;
            }
            costs[row] = cost * preferredTaintMultiplier[row]!;
          }
          return undefined;
        },
      }),
    ],
    picker: pickLowestCost(rng),
  }),
});
