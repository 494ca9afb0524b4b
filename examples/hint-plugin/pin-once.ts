// Tells each engine once of a session that it serves. What the policy remembers is its own, and begins anew with every reload.
import { defineHintPolicy } from 'pointsman/plugin';

/** Sessions remembered; with one more it begins anew, so that memory stays bounded. */
const MOST_SESSIONS = 10_000;

export default defineHintPolicy({
  type: 'pin-once',
  actions: ['acme.pin@1.0'],
  create: () => {
    const told = new Set<string>();
    return {
      buildHints({ session, worker }) {
        if (session === null) return [];
        const key = `${worker.workerId} ${worker.rank} ${session.namespace} ${session.sessionId}`;
        if (told.has(key)) return [];
        told.add(key);
        if (told.size > MOST_SESSIONS) told.clear();
        return [{ type: 'acme.pin', version: '1.0', payload: { session: session.sessionId } }];
      },
    };
  },
});
