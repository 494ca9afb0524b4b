// The default cost of the Dynamo KV router as a declared cost: prompt blocks still to prefill, less credit for cached ones, plus
// blocks in decode. The formula stands in README.md; the host evaluates it.
import {
  defineWorkerSelectionPolicy,
  linearCost,
  type WorkerSelectionPolicyDefinition,
} from '../../plugin/index.ts';
import { costParameters } from './parameters.ts';

/** `dynamo-default-cost-fn`: the policy of every role that names no other. */
export const dynamoDefaultCostFn: WorkerSelectionPolicyDefinition = defineWorkerSelectionPolicy({
  type: 'dynamo-default-cost-fn',
  exclusiveAffinity: true,
  parameters: costParameters,
  create: ({ parameters }) => ({ cost: linearCost(parameters) }),
});
