// Lets the booked worker fetch the prompt's KV blocks from a peer that holds them, where that saves enough prefill.
import { defineHintPolicy } from 'pointsman/plugin';
import { z } from 'zod';

export default defineHintPolicy({
  // The name under `hints` in router.yaml.
  type: 'my-policy',
  // What `parameters` may hold there. Anything else is an error with its line and column.
  parameters: z.strictObject({
    /** Smallest saving worth a fetch, in prompt tokens. */
    min_tokens: z.int().min(1).default(32),
  }),
  // What buildHints reads beyond the basic facts: only that is prepared, and only that is on the context's type.
  inputs: ['kv-copy-locations'],
  // What it may return. Anything else would be dropped and counted.
  actions: ['kv.fetch@1.0'],
  // Called once per model partition and worker role; what it keeps lives as long as the plugin.
  create: ({ parameters }) => ({
    // Called once per booking, when the worker is fixed and the request waits: synchronous, and quick.
    buildHints({ blockSize, copyLocations }) {
      const copy = copyLocations.bestSource(Math.ceil(parameters.min_tokens / blockSize));
      if (copy === null) return [];
      const payload = { source_control_endpoint: copy.controlEndpoint, block_hashes: copy.blockHashes };
      return [{ type: 'kv.fetch', version: '1.0', payload }];
    },
  }),
});
