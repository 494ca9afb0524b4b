// Prefer cached prefixes, but never send to a worker that already runs `max_requests` while others are free.
import { defineWorkerSelectionPolicy, filterWorkers, pickLowestCost, scoreWorkers } from 'pointsman/plugin';
import { z } from 'zod';

export default defineWorkerSelectionPolicy({
  type: 'spread',
  parameters: z.strictObject({ max_requests: z.int().min(1).default(32) }),
  create: ({ parameters, rng }) => ({
    filters: [
      filterWorkers({
        name: 'too-busy',
        inputs: ['load'],
        keep: (candidate) => candidate.load.activeRequests < parameters.max_requests,
      }),
    ],
    scorers: [
      scoreWorkers({
        inputs: ['cache', 'load'],
        score({ count, cache, load }, costs, request) {
          for (let row = 0; row < count; row += 1) {
            const toPrefill = request.requestBlocks - (cache.deviceBlocks[row] ?? 0);
            costs[row] = toPrefill + (load.activePrefillTokens[row] ?? 0) / request.blockSize;
          }
        },
      }),
    ],
    picker: pickLowestCost(rng),
  }),
});
