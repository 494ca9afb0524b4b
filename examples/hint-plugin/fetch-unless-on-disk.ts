// Fetch from a peer only what the booked worker does not have itself, its own disk included: what lies there it need not be sent.
import { defineHintPolicy } from 'pointsman/plugin';
import { z } from 'zod';

export default defineHintPolicy({
  type: 'fetch-unless-on-disk',
  parameters: z.strictObject({
    /** Least saving, in blocks. */
    min_blocks: z.int().min(1).default(4),
  }),
  inputs: ['cache', 'kv-copy-locations'],
  actions: ['kv.fetch@1.0'],
  create: ({ parameters }) => ({
    buildHints({ cache, copyLocations }) {
      // `bestSource` counts from where the worker's device and host memory end; its disk goes on from there.
      const copy = copyLocations.bestSource(cache.diskBlocks + parameters.min_blocks);
      if (copy === null) return [];
      const payload = { source_control_endpoint: copy.controlEndpoint, block_hashes: copy.blockHashes };
      return [{ type: 'kv.fetch', version: '1.0', payload }];
    },
  }),
});
