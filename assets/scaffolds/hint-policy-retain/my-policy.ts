// Asks the booked worker's engine to keep the blocks of a session longer than others, until its last request.
import { defineHintPolicy } from 'pointsman/plugin';
import { z } from 'zod';

export default defineHintPolicy({
  // The name under `hints` in router.yaml.
  type: 'my-policy',
  // What `parameters` may hold there. Anything else is an error with its line and column.
  parameters: z.strictObject({
    /** What goes first when the engine needs room: 1, before all other retained blocks, to 100. */
    priority: z.int().min(1).max(100).default(50),
    /** How long, in milliseconds; each request of the session begins it anew. */
    ttl_ms: z.int().min(1).max(86_400_000).default(60_000),
    /** Most blocks of one session, from the first on. */
    max_blocks: z.int().min(1).default(4096),
  }),
  // What buildHints reads beyond the basic facts: only that is prepared, and only that is on the context's type.
  inputs: ['session-lineage'],
  // What it may return. Anything else would be dropped and counted.
  actions: ['kv.retain@1.0'],
  // Called once per model partition and worker role; what it keeps lives as long as the plugin.
  create: ({ parameters: { priority, ttl_ms, max_blocks } }) => ({
    // Called once per booking, when the worker is fixed and the request waits: synchronous, and quick.
    buildHints({ lineage, session, worker }) {
      // `lineage` is null where it is switched off, `session` where the request has none.
      if (lineage === null || session === null || session.sessionFinal) return [];
      const block_hashes = lineage.uniqueBlocks(session.sessionId, worker).slice(0, max_blocks);
      if (block_hashes.length === 0) return [];
      return [{ type: 'kv.retain', version: '1.0', payload: { block_hashes, priority, ttl_ms } }];
    },
  }),
});
