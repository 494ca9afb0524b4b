// What a selection is told of its request, for tests of the pipeline and of what lies around it.
import type { SelectionFacts } from '../../src/host/index.ts';

/** A request of so many tokens in blocks of 16, without wishes. */
export function selectionFacts(promptTokens: number, changes: Partial<SelectionFacts> = {}): SelectionFacts {
  return {
    requestId: 'r',
    promptTokens,
    requestBlocks: Math.ceil(promptTokens / 16),
    blockSize: 16,
    tracksPrefillTokens: true,
    session: null,
    affinityTarget: null,
    pinnedWorker: null,
    expectedOutputTokens: null,
    priority: 0,
    strictPriority: 0,
    temperatureOverride: null,
    ...changes,
  };
}
