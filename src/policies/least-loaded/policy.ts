// The worker with the fewest requests in flight.
import {
  defineWorkerSelectionPolicy,
  pickLowestCost,
  scoreWorkers,
  type WorkerSelectionPolicyDefinition,
} from '../../plugin/index.ts';

/** `least-loaded`: fewest requests in flight; ties uniformly at random. */
export const leastLoaded: WorkerSelectionPolicyDefinition = defineWorkerSelectionPolicy({
  type: 'least-loaded',
  create: ({ rng }) => ({
    scorers: [
      scoreWorkers({
        inputs: ['occupancy'],
        score({ count, occupancy }, costs) {
          for (let row = 0; row < count; row += 1) costs[row] = occupancy[row]!;
        },
      }),
    ],
    picker: pickLowestCost(rng),
  }),
});
