// Sends a request where it costs least in money: GPU time at each worker's price, and the time its user waits at a price of its own.
import {
  defineWorkerSelectionPolicy,
  pickLowestCost,
  scoreWorkers,
  type WorkerSelectionPolicyDefinition,
} from 'pointsman/plugin';
import { z } from 'zod';

const dollars = z.number().min(0);
/** Ids beyond 2^53 arrive as bigint, the others as numbers. */
const workerId = z.union([z.int().min(0), z.bigint()]).transform(BigInt);

/** `parameters` in router.yaml. */
const parameters = z.strictObject({
  /** Workers whose time has a price of its own. */
  prices: z
    .array(z.strictObject({ workers: z.array(workerId).min(1), dollars_per_second: dollars }))
    .default([]),
  /** All GPUs of any other worker, per second. */
  dollars_per_second: dollars.default(0.001),
  /** What a second costs that the user waits for the first token; 0 = only money counts. */
  dollars_per_waiting_second: dollars.default(0.01),
  prefill_tokens_per_second: z.number().positive().default(8000),
  output_tokens_per_second: z.number().positive().default(50),
  /** For requests that do not say how much they will generate. */
  usual_output_tokens: z.int().min(0).default(256),
});

/** `cost-aware`: costs are in dollars per request. */
export const costAware: WorkerSelectionPolicyDefinition = defineWorkerSelectionPolicy({
  type: 'cost-aware',
  parameters,
  create: ({ parameters, rng }) => {
    const priceOf = new Map<bigint, number>();
    for (const { dollars_per_second: price, workers } of parameters.prices) {
      for (const worker of workers) priceOf.set(worker, price);
    }
    return {
      scorers: [
        scoreWorkers({
          inputs: ['cache', 'load'],
          score({ cache, count, load, workerIds }, costs, request) {
            const outputTokens = request.expectedOutputTokens ?? parameters.usual_output_tokens;
            const outputSeconds = outputTokens / parameters.output_tokens_per_second;
            for (let row = 0; row < count; row += 1) {
              const cached = (cache.deviceBlocks[row] ?? 0) * request.blockSize;
              const toPrefill = Math.max(0, request.promptTokens - cached);
              const prefillSeconds = toPrefill / parameters.prefill_tokens_per_second;
              const queueSeconds =
                (load.activePrefillTokens[row] ?? 0) / parameters.prefill_tokens_per_second;
              const price = priceOf.get(workerIds[row] ?? 0n) ?? parameters.dollars_per_second;
              costs[row] =
                price * (prefillSeconds + outputSeconds) +
                parameters.dollars_per_waiting_second * (queueSeconds + prefillSeconds);
            }
          },
        }),
      ],
      picker: pickLowestCost(rng),
    };
  },
});
