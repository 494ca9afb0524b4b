// When a sub-agent is done its parent goes on: with the child's final request the parent's blocks are brought back from host memory. The
// lineage forgets blocks that leave the device, so the policy remembers them.
import { defineHintPolicy } from 'pointsman/plugin';
import { z } from 'zod';

/** Sessions remembered; with one more the oldest goes. */
const MOST_SESSIONS = 1000;

export default defineHintPolicy({
  type: 'harness_prefetch',
  parameters: z.strictObject({
    /** Most blocks brought back at a time. */
    max_blocks: z.int().min(1).max(4096).default(1024),
  }),
  inputs: ['session-lineage', 'residency'],
  actions: ['kv.prefetch@1.0'],
  create: ({ parameters: { max_blocks } }) => {
    const remembered = new Map<string, BigUint64Array>();
    return {
      buildHints({ lineage, residency, session, worker }) {
        if (lineage === null || residency === null || session === null) return [];
        const { namespace, parentSessionId, sessionFinal, sessionId } = session;
        // Equal ids of two namespaces are two sessions.
        const keyOf = (id: string): string => `${worker.workerId} ${worker.rank} ${namespace} ${id}`;
        for (const id of [sessionId, parentSessionId ?? sessionId]) {
          const key = keyOf(id);
          const blocks = lineage.uniqueBlocks(id, worker);
          if (blocks.length > (remembered.get(key)?.length ?? 0)) remembered.set(key, blocks);
        }
        for (const oldest of remembered.keys()) {
          if (remembered.size <= MOST_SESSIONS) break;
          remembered.delete(oldest);
        }
        if (parentSessionId === undefined || sessionFinal !== true) return [];
        const known = remembered.get(keyOf(parentSessionId));
        const block_hashes = (known ?? new BigUint64Array(0))
          .filter((hash) => residency.tierOf(worker, hash) === 'host')
          .slice(0, max_blocks);
        return block_hashes.length === 0
          ? []
          : [{ type: 'kv.prefetch', version: '1.0', payload: { block_hashes } }];
      },
    };
  },
});
