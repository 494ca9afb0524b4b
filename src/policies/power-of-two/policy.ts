// The better of two workers drawn at random.
import {
  defineWorkerSelectionPolicy,
  pickWorker,
  type WorkerSelectionPolicyDefinition,
} from '../../plugin/index.ts';

/** `power-of-two`: two distinct candidates, each pair equally likely; fewer requests in flight wins, a tie goes to the first drawn. */
export const powerOfTwo: WorkerSelectionPolicyDefinition = defineWorkerSelectionPolicy({
  type: 'power-of-two',
  create: ({ rng }) => ({
    picker: pickWorker({
      inputs: ['occupancy'],
      pick({ count, occupancy }) {
        if (count === 1) return 0;
        const first = rng.integer(count);
        // A step of 1 to count − 1 around the ring never lands on the first.
        const second = (first + 1 + rng.integer(count - 1)) % count;
        return occupancy[second]! < occupancy[first]! ? second : first;
      },
    }),
  }),
});
