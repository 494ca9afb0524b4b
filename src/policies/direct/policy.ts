// The worker that the request names, and no other.
import {
  defineWorkerSelectionPolicy,
  PointsmanError,
  pickWorker,
  type WorkerSelectionPolicyDefinition,
} from '../../plugin/index.ts';

/** `direct`: pinned requests only. The host keeps to a pin without asking the picker, so a request that gets here has none. */
export const direct: WorkerSelectionPolicyDefinition = defineWorkerSelectionPolicy({
  type: 'direct',
  create: ({ role }) => ({
    picker: pickWorker({
      pick() {
        throw new PointsmanError(
          'PM_SELECTION_PIN_REQUIRED',
          `worker selection policy direct of role ${role} takes pinned requests only, and this one names no worker; send x-dynamo-worker-instance-id from a network in router.trust_routing_fields_from, or use another policy`,
        );
      },
    }),
  }),
});
