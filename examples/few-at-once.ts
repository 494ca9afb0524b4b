// At most `most` requests at once; the others wait their turn, and when `waiting` do already, the next is refused.
import { CapacityExhausted, defineRequestClassifier } from 'pointsman/plugin';
import { z } from 'zod';

export default defineRequestClassifier({
  type: 'few_at_once',
  parameters: z.strictObject({
    most: z.int().min(1).default(64),
    waiting: z.int().min(0).default(1000),
  }),
  create: ({ parameters }) => {
    const running = new Set<string>();
    const waiting = new Map<string, () => void>();
    return {
      classify({ requestId }) {
        if (running.size < parameters.most) {
          running.add(requestId);
          return undefined;
        }
        if (waiting.size >= parameters.waiting) throw new CapacityExhausted('too many requests wait already');
        return new Promise((resolve) => waiting.set(requestId, () => resolve(undefined)));
      },
      onEvent({ kind, requestId }) {
        if (kind !== 'completed' && kind !== 'aborted') return;
        running.delete(requestId);
        waiting.delete(requestId);
        const [next] = waiting;
        if (next === undefined || running.size >= parameters.most) return;
        const [id, go] = next;
        waiting.delete(id);
        running.add(id);
        go();
      },
    };
  },
});
