// Tells the booked worker's engine which peer holds leading blocks of the prompt that it lacks.
import { z } from 'zod';
import { defineHintPolicy, type HintPolicyDefinition } from '../../plugin/index.ts';

/** `kv_fetch`: the copy that selection committed, else one `kv.fetch@1.0` where a peer adds at least `min_additional_blocks`. */
export const kvFetch: HintPolicyDefinition = defineHintPolicy({
  type: 'kv_fetch',
  parameters: z.strictObject({ min_additional_blocks: z.int().min(1).default(1) }),
  inputs: ['kv-copy-locations'],
  actions: ['kv.fetch@1.0'],
  commitments: ['kv-copy'],
  defaultHosts: [{ workerSelection: 'kvcr' }],
  create: ({ parameters }) => ({
    buildHints({ committedKvCopy, copyLocations }) {
      const copy = committedKvCopy ?? copyLocations.bestSource(parameters.min_additional_blocks);
      if (copy === null) return [];
      return [
        {
          type: 'kv.fetch',
          version: '1.0',
          payload: { source_control_endpoint: copy.controlEndpoint, block_hashes: copy.blockHashes },
        },
      ];
    },
  }),
});
