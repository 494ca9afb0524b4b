// Tells the engine whose child a session is, so that it may keep what both of them begin with.
import { defineHintPolicy } from 'pointsman/plugin';

export default defineHintPolicy({
  type: 'pin-children',
  actions: ['acme.pin@1.0'],
  create: () => ({
    buildHints({ session }) {
      if (session?.parentSessionId === undefined) return [];
      return [{ type: 'acme.pin', version: '1.0', payload: { parent: session.parentSessionId } }];
    },
  }),
});
