// Fetch from a peer only where the booked worker has a queue of prefill: an idle one may compute as fast as it fetches.
import { defineHintPolicy } from 'pointsman/plugin';
import { z } from 'zod';

export default defineHintPolicy({
  type: 'fetch-when-busy',
  parameters: z.strictObject({
    /** Least saving, in blocks. */
    min_blocks: z.int().min(1).default(4),
    /** Least queue on the booked worker, in prompt tokens. */
    min_queue_tokens: z.int().min(0).default(2048),
  }),
  inputs: ['kv-copy-locations', 'load'],
  actions: ['kv.fetch@1.0'],
  create: ({ parameters }) => ({
    buildHints({ copyLocations, load }) {
      if (load.activePrefillTokens < parameters.min_queue_tokens) return [];
      const copy = copyLocations.bestSource(parameters.min_blocks);
      if (copy === null) return [];
      const payload = { source_control_endpoint: copy.controlEndpoint, block_hashes: copy.blockHashes };
      return [{ type: 'kv.fetch', version: '1.0', payload }];
    },
  }),
});
