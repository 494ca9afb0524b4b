// A cost in milliseconds: the wait for prompts booked before, the prefill of what is neither cached nor in flight, weighed by what it
// delays, and decoding. The formula stands in README.md; the host evaluates it.
import {
  defineWorkerSelectionPolicy,
  timeCost,
  type WorkerSelectionPolicyDefinition,
} from '../../plugin/index.ts';
import { expectedTimeParameters } from './parameters.ts';

/** `pointsman-expected-time`: the worker where the request, and those that it meets there, lose the least time. */
export const pointsmanExpectedTime: WorkerSelectionPolicyDefinition = defineWorkerSelectionPolicy({
  type: 'pointsman-expected-time',
  exclusiveAffinity: true,
  parameters: expectedTimeParameters,
  create: ({ parameters }) => ({ cost: timeCost(parameters) }),
});
