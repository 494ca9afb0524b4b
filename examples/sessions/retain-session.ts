// Asks the booked worker's engine to keep what the session has there, as far as that is known: each block once, roots first.
import { defineHintPolicy } from 'pointsman/plugin';
import { z } from 'zod';

export default defineHintPolicy({
  type: 'retain-session',
  parameters: z.strictObject({
    priority: z.int().min(1).max(100).default(50),
    ttl_ms: z.int().min(1).max(86_400_000).default(60_000),
    /** Most blocks of a session. */
    max_blocks: z.int().min(1).max(65_536).default(4096),
  }),
  inputs: ['session-lineage'],
  actions: ['kv.retain@1.0'],
  create: ({ parameters: { max_blocks, priority, ttl_ms } }) => ({
    buildHints({ lineage, session, worker }) {
      // Null: the lineage is switched off, or the request belongs to no session.
      if (lineage === null || session === null || session.sessionFinal === true) return [];
      // No block comes before its parent, so what is cut has nothing behind it.
      const block_hashes = lineage.uniqueBlocks(session.sessionId, worker).slice(0, max_blocks);
      if (block_hashes.length === 0) return [];
      return [{ type: 'kv.retain', version: '1.0', payload: { block_hashes, priority, ttl_ms } }];
    },
  }),
});
