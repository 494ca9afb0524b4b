// When a sub-agent is done its parent goes on: with the child's last request the booked worker's engine brings the parent's blocks back
// from host memory.
import { defineHintPolicy } from 'pointsman/plugin';
import { z } from 'zod';

/** Sessions remembered; with one more the oldest goes. */
const MOST_SESSIONS = 1000;

export default defineHintPolicy({
  // The name under `hints` in router.yaml.
  type: 'my-policy',
  // What `parameters` may hold there. Anything else is an error with its line and column.
  parameters: z.strictObject({
    /** Most blocks brought back at a time, from the first on; an action takes no more than 4096. */
    max_blocks: z.int().min(1).max(4096).default(1024),
  }),
  // What buildHints reads beyond the basic facts: only that is prepared, and only that is on the context's type.
  inputs: ['session-lineage', 'residency'],
  // What it may return. Anything else would be dropped and counted.
  actions: ['kv.prefetch@1.0'],
  // Called once per model partition and worker role; what it keeps lives as long as the plugin.
  create: ({ parameters: { max_blocks } }) => {
    // The lineage forgets blocks that leave the device, so they have to be remembered.
    const remembered = new Map<string, BigUint64Array>();
    return {
      // Called once per booking, when the worker is fixed and the request waits: synchronous, and quick.
      buildHints({ lineage, residency, session, worker }) {
        // Null where they are switched off, `session` where the request has none.
        if (lineage === null || residency === null || session === null) return [];
        const { namespace, parentSessionId: parent } = session;
        // Equal ids of two namespaces are two sessions.
        const keyOf = (id: string): string => `${worker.workerId} ${worker.rank} ${namespace} ${id}`;
        for (const id of parent === undefined ? [session.sessionId] : [session.sessionId, parent]) {
          const key = keyOf(id);
          const blocks = lineage.uniqueBlocks(id, worker);
          if (blocks.length > (remembered.get(key)?.length ?? 0)) remembered.set(key, blocks);
        }
        for (const oldest of remembered.keys()) {
          if (remembered.size <= MOST_SESSIONS) break;
          remembered.delete(oldest);
        }
        if (parent === undefined || !session.sessionFinal) return [];
        const block_hashes = (remembered.get(keyOf(parent)) ?? new BigUint64Array(0))
          .filter((hash) => residency.tierOf(worker, hash) === 'host')
          .slice(0, max_blocks);
        if (block_hashes.length === 0) return [];
        return [{ type: 'kv.prefetch', version: '1.0', payload: { block_hashes } }];
      },
    };
  },
});
