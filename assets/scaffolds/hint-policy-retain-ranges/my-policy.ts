// Asks the booked worker's engine to keep what a turn of a session leaves in its cache, prompt and answer, longer than other blocks.
import { defineHintPolicy, type HintJson } from 'pointsman/plugin';
import { z } from 'zod';

export default defineHintPolicy({
  // The name under `hints` in router.yaml.
  type: 'my-policy',
  // What `parameters` may hold there. Anything else is an error with its line and column.
  parameters: z.strictObject({
    /** What goes first when the engine needs room: 1, before all other retained blocks, to 100. Of the prompt, and of the answer. */
    priority: z.int().min(1).max(100).default(50),
    answer_priority: z.int().min(1).max(100).default(20),
    /** How long, in seconds; each request of the session begins it anew. */
    seconds: z.number().positive().max(2_592_000).default(60),
  }),
  // What it may return. Anything else would be dropped and counted.
  actions: ['kv.retain@1.1'],
  // Called once per model partition and worker role; what it keeps lives as long as the plugin.
  create: ({ parameters: { answer_priority, priority, seconds: duration } }) => ({
    // Called once per booking, when the worker is fixed and the request waits: synchronous, and quick.
    buildHints({ promptTokens, session }) {
      // `session` is null where the request has none; after the last request nobody comes back.
      if (session === null || session.sessionFinal) return [];
      const directives: readonly HintJson[] = [
        { start: 0, end: promptTokens, priority, duration },
        // A block is of no use without those before it, so priorities must not rise along the tokens.
        { covers_output: true, priority: Math.min(priority, answer_priority), duration },
      ];
      return [{ type: 'kv.retain', version: '1.1', payload: { scope: session.sessionId, directives } }];
    },
  }),
});
