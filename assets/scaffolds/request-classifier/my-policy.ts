// Lets few requests run at once: the others wait their turn, and when too many wait already, the next is refused.
import { CapacityExhausted, defineRequestClassifier } from 'pointsman/plugin';
import { z } from 'zod';

export default defineRequestClassifier({
  // The name under `request_classifier` in router.yaml.
  type: 'my-policy',
  // What `parameters` may hold there. Anything else is an error with its line and column.
  parameters: z.strictObject({
    /** Requests that run at once. */
    at_once: z.int().min(1).default(64),
    /** Requests that may wait. */
    waiting: z.int().min(0).default(1000),
  }),
  // Called once per model; what it keeps lives as long as the plugin.
  create: ({ parameters }) => {
    const running = new Set<string>();
    const waiting = new Map<string, () => void>();
    return {
      // Called once per request, before anything is booked. A promise lets this request wait and holds up nobody else.
      classify({ requestId }) {
        if (running.size < parameters.at_once) {
          running.add(requestId);
          return undefined;
        }
        // A client gets 429, or what `limits.overload_status` says.
        if (waiting.size >= parameters.waiting) throw new CapacityExhausted('too many requests wait already');
        return new Promise((resolve) => waiting.set(requestId, () => resolve(undefined)));
      },
      // Exactly one `completed` or `aborted` comes for each request, also for one that was refused or left while it waited.
      onEvent({ kind, requestId }) {
        if (kind !== 'completed' && kind !== 'aborted') return;
        running.delete(requestId);
        waiting.delete(requestId);
        const [next] = waiting;
        if (next === undefined || running.size >= parameters.at_once) return;
        const [nextId, letGo] = next;
        waiting.delete(nextId);
        running.add(nextId);
        letGo();
      },
    };
  },
});
