// Every request as it is.
import { defineRequestClassifier, type RequestClassifierDefinition } from '../../plugin/index.ts';

/** `pass-through`: has nothing to ask and nothing to tell, so that the host does neither. */
export const passThrough: RequestClassifierDefinition = defineRequestClassifier({
  type: 'pass-through',
  create: () => ({}),
});
