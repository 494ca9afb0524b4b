// With the last request of a session the booked worker's engine gives up the blocks that no other session has.
import { defineHintPolicy } from 'pointsman/plugin';
import { z } from 'zod';

export default defineHintPolicy({
  // The name under `hints` in router.yaml.
  type: 'my-policy',
  // What `parameters` may hold there. Anything else is an error with its line and column.
  parameters: z.strictObject({
    /** Fewer blocks than this are not worth an action. */
    min_blocks: z.int().min(1).default(1),
    /** `device`: they stay in host memory, where the engine has some. */
    tier: z.enum(['all', 'device']).default('all'),
  }),
  // What buildHints reads beyond the basic facts: only that is prepared, and only that is on the context's type.
  inputs: ['session-lineage'],
  // What it may return. Anything else would be dropped and counted.
  actions: ['kv.evict@1.0'],
  // Called once per model partition and worker role; what it keeps lives as long as the plugin.
  create: ({ parameters: { min_blocks, tier } }) => ({
    // Called once per booking, when the worker is fixed and the request waits: synchronous, and quick.
    buildHints({ lineage, session, worker }) {
      // `lineage` is null where it is switched off, `session` where the request has none.
      if (lineage === null || session === null || !session.sessionFinal) return [];
      // As many as the action takes; without their end the others are still of use to nobody.
      const block_hashes = lineage.exclusiveBlocks(session.sessionId, worker).slice(-65_536);
      if (block_hashes.length < min_blocks) return [];
      // Until its end the request needs them itself.
      const payload = { block_hashes, tier, execute_at: 'request_completion' };
      return [{ type: 'kv.evict', version: '1.0', payload }];
    },
  }),
});
