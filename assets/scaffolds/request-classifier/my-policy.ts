// Lets each session have at most `most` requests under way: the next waits for its turn, and others notice nothing of it.
import { CapacityExhausted, defineRequestClassifier } from 'pointsman/plugin';
import { z } from 'zod';

export default defineRequestClassifier({
  // The name under `request_classifier` in router.yaml.
  type: 'my-policy',
  // What `parameters` may hold there. Anything else is an error with its line and column.
  parameters: z.strictObject({
    /** Requests of one session at once. */
    most: z.int().min(1).default(2),
    /** Requests of one session that may wait. */
    waiting: z.int().min(0).default(16),
  }),
  // Called once per model; what it keeps lives as long as the plugin.
  create: ({ parameters }) => {
    /** Requests under way or waiting, by session, in the order they came; `go` is null once one may go. */
    const sessions = new Map<string, Map<string, (() => void) | null>>();
    const sessionOf = new Map<string, string>();
    return {
      // Called once per request, before anything is booked. It may answer with a promise, and holds up nobody else by that.
      classify({ requestId, session }) {
        if (session === null) return undefined;
        const { sessionId } = session;
        const requests = sessions.get(sessionId) ?? new Map<string, (() => void) | null>();
        if (requests.size >= parameters.most + parameters.waiting) {
          throw new CapacityExhausted('this session has too many requests under way');
        }
        sessions.set(sessionId, requests);
        sessionOf.set(requestId, sessionId);
        if (requests.size < parameters.most) {
          requests.set(requestId, null);
          return undefined;
        }
        return new Promise((resolve) => requests.set(requestId, () => resolve(undefined)));
      },
      // Told what becomes of every request, its end exactly once, also of those that were refused or left while they waited.
      onEvent({ kind, requestId }) {
        if (kind !== 'completed' && kind !== 'aborted') return;
        const sessionId = sessionOf.get(requestId);
        if (sessionId === undefined) return;
        sessionOf.delete(requestId);
        const requests = sessions.get(sessionId);
        requests?.delete(requestId);
        if (requests === undefined || requests.size === 0) {
          sessions.delete(sessionId);
          return;
        }
        // The first `most` of a session go.
        for (const [id, go] of [...requests].slice(0, parameters.most)) {
          requests.set(id, null);
          go?.();
        }
      },
    };
  },
});
