// A cost in milliseconds: the wait for prompts booked before, the prefill of what is not cached or in flight, weighed by what it delays,
// and decoding. The formula stands in README.md.
import {
  defineWorkerSelectionPolicy,
  pickLowestCost,
  scoreWorkers,
  type WorkerSelectionPolicyDefinition,
} from '../../plugin/index.ts';
import { DECODE_BEND, expectedTimeParameters, START_TIMING } from './parameters.ts';

/** `pointsman-expected-time`: the worker where the request, and those it meets there, lose the least time. */
export const pointsmanExpectedTime: WorkerSelectionPolicyDefinition = defineWorkerSelectionPolicy({
  type: 'pointsman-expected-time',
  exclusiveAffinity: true,
  parameters: expectedTimeParameters,
  create({ parameters, rng }) {
    const mu = parameters.prefill_weight;
    const kappa = parameters.interference_weight;
    const phi = parameters.decode_weight;
    const { timing } = parameters;
    const tokenMs = (timing.prefill_us_per_token ?? START_TIMING.tokenMs * 1e3) / 1e3;
    const attentionMs = (timing.attention_ns_per_token_pair ?? START_TIMING.attentionMs * 1e6) / 1e6;
    const decodeMs = timing.decode_ms ?? START_TIMING.decodeMs;
    const fillMs = timing.decode_fill_ms ?? START_TIMING.decodeFillMs;
    const hostTokenMs = (parameters.kv_bytes_per_token * 8) / (parameters.host_gbps * 1e6);
    const perReference = 1 / parameters.kv_reference_tokens;
    return {
      scorers: [
        scoreWorkers({
          inputs: ['cache', 'in-flight-blocks', 'request-phases', 'output-length', 'preferred-taint'],
          score(candidates, costs, { blockSize, expectedOutputTokens, promptTokens }) {
            const { cache, count, inFlightBlocks, phases, preferredTaintMultiplier } = candidates;
            const { prefillRequests, prefillTokens, prefillAttention, prefillFrontMs } = phases;
            const { decodeRequests, promptTokens: bookedTokens } = phases;
            const { hostBlocks } = cache;
            const deviceBlocks = cache.hasTierMatches ? cache.deviceBlocks : cache.effectiveOverlapBlocks;
            const outputTokens =
              candidates.averageOutputTokens ?? expectedOutputTokens ?? parameters.default_output_tokens;
            const decodeWeight = phi * outputTokens;
            for (let row = 0; row < count; row += 1) {
              const device = deviceBlocks[row]!;
              const held = Math.max(device, inFlightBlocks[row]!);
              const cached = held * blockSize;
              const tokens = Math.max(1, promptTokens - cached);
              const prefill = tokens * (tokenMs + attentionMs * (cached + tokens / 2));
              const waiting = prefillRequests[row]!;
              let queue = 0;
              if (waiting > 0) {
                const booked = tokenMs * prefillTokens[row]! + attentionMs * prefillAttention[row]!;
                queue = Math.max(0, booked - Math.min(prefillFrontMs[row]!, booked / waiting));
              }
              const weight = mu + kappa * decodeRequests[row]!;
              let time = queue + weight * prefill;
              const onHost = Math.min(device + hostBlocks[row]! - held, promptTokens / blockSize - held);
              if (onHost > 0) {
                const reached = cached + onHost * blockSize;
                const rest = Math.max(1, promptTokens - reached);
                const restMs = rest * (tokenMs + attentionMs * (reached + rest / 2));
                time = Math.min(time, Math.max(queue, onHost * blockSize * hostTokenMs) + weight * restMs);
              }
              const fill = Math.min(1, (bookedTokens[row]! + promptTokens) * perReference);
              const decode = decodeMs + fillMs * fill * (1 - DECODE_BEND * fill);
              costs[row] = (time + decodeWeight * decode) * preferredTaintMultiplier[row]!;
            }
            return undefined;
          },
        }),
      ],
      picker: pickLowestCost(rng),
    };
  },
});
