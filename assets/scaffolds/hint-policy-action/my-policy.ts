// Sends acme.action@0.0 to the booked worker's engine with every prompt that is long enough.
import { defineHintPolicy } from 'pointsman/plugin';
import { z } from 'zod';

export default defineHintPolicy({
  // The name under `hints` in router.yaml.
  type: 'my-policy',
  // What `parameters` may hold there. Anything else is an error with its line and column.
  parameters: z.strictObject({
    /** Shortest prompt that it is sent for, in tokens. */
    min_tokens: z.int().min(1).default(32),
  }),
  // What it may return. Anything else would be dropped and counted.
  actions: ['acme.action@0.0'],
  // Called once per model partition and worker role; what it keeps lives as long as the plugin.
  create: ({ parameters }) => ({
    // Called once per booking, when the worker is fixed and the request waits: synchronous, and quick. Add `inputs` for more facts.
    buildHints({ promptTokens, session }) {
      if (promptTokens < parameters.min_tokens) return [];
      // JSON, bigint and BigUint64Array: what the engine makes of it is between you and the engine.
      const payload = { prompt_tokens: promptTokens, session_id: session?.sessionId ?? null };
      return [{ type: 'acme.action', version: '0.0', payload }];
    },
  }),
});
