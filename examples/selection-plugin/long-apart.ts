// Keep long prompts on workers of their own, so that short ones do not wait behind them, unless the others are far busier.
import { defineWorkerSelectionPolicy, pickLowestCost, scoreEachWorker, scoreWorkers } from 'pointsman/plugin';
import { z } from 'zod';

export default defineWorkerSelectionPolicy({
  type: 'long-apart',
  parameters: z.strictObject({
    /** From this many tokens on a prompt is long. */
    long_tokens: z.int().min(1).default(8192),
    /** Ids of the workers for long prompts. */
    long_workers: z.array(z.int().min(0)).default([]),
    /** What a prompt on the wrong side costs more, in tokens of prefill. */
    penalty_tokens: z.int().min(0).default(32_768),
  }),
  create: ({ parameters, rng }) => {
    const forLong = new Set(parameters.long_workers.map(BigInt));
    return {
      scorers: [
        // Prefill ahead of the first token: what waits, and what of this prompt is not cached.
        scoreWorkers({
          inputs: ['cache', 'load'],
          score({ cache, count, load }, costs, request) {
            for (let row = 0; row < count; row += 1) {
              const cached = (cache.deviceBlocks[row] ?? 0) * request.blockSize;
              const toPrefill = Math.max(0, request.promptTokens - cached);
              costs[row] = toPrefill + (load.activePrefillTokens[row] ?? 0);
            }
          },
        }),
        scoreEachWorker({
          cost({ workerId }, request) {
            const isLong = request.promptTokens >= parameters.long_tokens;
            return isLong === forLong.has(workerId) ? 0 : parameters.penalty_tokens;
          },
        }),
      ],
      picker: pickLowestCost(rng),
    };
  },
});
