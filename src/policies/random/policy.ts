// Any worker, all alike.
import {
  defineWorkerSelectionPolicy,
  pickWorker,
  type WorkerSelectionPolicyDefinition,
} from '../../plugin/index.ts';

/** `random`: one uniform draw per request. */
export const random: WorkerSelectionPolicyDefinition = defineWorkerSelectionPolicy({
  type: 'random',
  create: ({ rng }) => ({ picker: pickWorker({ pick: ({ count }) => rng.integer(count) }) }),
});
