// Fetch from a peer only where the copy saves at least `min_tokens` of prefill.
import { defineHintPolicy } from 'pointsman/plugin';
import { z } from 'zod';

export default defineHintPolicy({
  type: 'fetch_long',
  parameters: z.strictObject({ min_tokens: z.int().min(1).default(1024) }),
  inputs: ['kv-copy-locations'],
  actions: ['kv.fetch@1.0'],
  create: ({ parameters }) => ({
    buildHints({ copyLocations, blockSize }) {
      const copy = copyLocations.bestSource(Math.ceil(parameters.min_tokens / blockSize));
      if (!copy) return [];
      const payload = { source_control_endpoint: copy.controlEndpoint, block_hashes: copy.blockHashes };
      return [{ type: 'kv.fetch', version: '1.0', payload }];
    },
  }),
});
