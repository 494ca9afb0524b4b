// The default cost that also credits blocks a peer could copy to the worker, and commits that copy for the worker it chooses.
import { z } from 'zod';
import {
  defineWorkerSelectionPolicy,
  linearCostWithCopies,
  type WorkerSelectionPolicyDefinition,
} from '../../plugin/index.ts';
import { costParameters } from '../dynamo-default-cost-fn/parameters.ts';

/** `kvcr`: selection that counts on copies. */
export const kvcr: WorkerSelectionPolicyDefinition = defineWorkerSelectionPolicy({
  type: 'kvcr',
  exclusiveAffinity: true,
  parameters: costParameters.extend({ shared_cache_multiplier: z.number().min(0).max(1).default(0.5) }),
  commitments: ['kv-copy'],
  commitsWhen: (parameters) => parameters.shared_cache_multiplier > 0,
  create: ({ parameters }) => ({ cost: linearCostWithCopies(parameters) }),
});
