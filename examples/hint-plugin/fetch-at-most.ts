// Fetch at most so many blocks from a peer: the first ones that the booked worker lacks. It computes the rest.
import { defineHintPolicy } from 'pointsman/plugin';
import { z } from 'zod';

export default defineHintPolicy({
  type: 'fetch-at-most',
  parameters: z.strictObject({
    /** Most blocks fetched for one request. */
    max_blocks: z.int().min(1).default(64),
  }),
  inputs: ['kv-copy-locations'],
  actions: ['kv.fetch@1.0'],
  create: ({ parameters }) => ({
    buildHints({ copyLocations }) {
      const copy = copyLocations.bestSource(1);
      if (copy === null) return [];
      // The list begins at the root of the prompt, with blocks that the worker has itself: it may end early, never begin late.
      const block_hashes = copy.blockHashes.slice(0, copyLocations.localPrefixBlocks + parameters.max_blocks);
      const payload = { source_control_endpoint: copy.controlEndpoint, block_hashes };
      return [{ type: 'kv.fetch', version: '1.0', payload }];
    },
  }),
});
