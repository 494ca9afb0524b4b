// Sends a request where it starts soonest: least prefill left to do, cached blocks counted, behind least prefill already waiting.
import { defineWorkerSelectionPolicy, filterWorkers, pickLowestCost, scoreWorkers } from 'pointsman/plugin';
import { z } from 'zod';

export default defineWorkerSelectionPolicy({
  // The name under `worker_selection` in router.yaml.
  type: 'my-policy',
  // What `parameters` may hold there. Anything else is an error with its line and column.
  parameters: z.strictObject({
    /** A worker with this many running requests takes no more. */
    max_requests: z.int().min(1).default(256),
    /** How much a waiting token weighs against one of this request. */
    queue_weight: z.number().min(0).max(100).default(1),
  }),
  // Called once per model partition and worker role; what it keeps lives as long as the plugin.
  create: ({ parameters, rng }) => ({
    // Each drops candidates one by one. When nobody is left, the request is refused.
    filters: [
      filterWorkers({
        name: 'full',
        inputs: ['load'],
        keep: ({ load }) => load.activeRequests < parameters.max_requests,
      }),
    ],
    // Each writes a cost for every row; lower is better; costs of several scorers add up.
    scorers: [
      scoreWorkers({
        // What it reads: only that is prepared, and only that is on the candidates' type.
        inputs: ['cache', 'load'],
        score({ cache, count, load }, costs, request) {
          for (let row = 0; row < count; row += 1) {
            const cached = (cache.deviceBlocks[row] ?? 0) * request.blockSize;
            const toPrefill = Math.max(0, request.promptTokens - cached);
            costs[row] = toPrefill + parameters.queue_weight * (load.activePrefillTokens[row] ?? 0);
          }
        },
      }),
    ],
    // Takes one row: here the cheapest, ties at random from `rng`, so that a decision can be repeated.
    picker: pickLowestCost(rng),
  }),
});
