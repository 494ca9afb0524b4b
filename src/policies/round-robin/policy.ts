// Each worker in turn, whatever it does.
import {
  defineWorkerSelectionPolicy,
  pickWorker,
  type WorkerSelectionPolicyDefinition,
} from '../../plugin/index.ts';

/** `round-robin`: the n-th request goes to candidate n modulo their number. */
export const roundRobin: WorkerSelectionPolicyDefinition = defineWorkerSelectionPolicy({
  type: 'round-robin',
  create: () => {
    let turn = 0;
    return {
      picker: pickWorker({
        pick({ count }) {
          const row = turn % count;
          // Stays exact for as long as a process can live.
          turn = (turn + 1) % Number.MAX_SAFE_INTEGER;
          return row;
        },
      }),
    };
  },
});
