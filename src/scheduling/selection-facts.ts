// What a policy is told of a request, and whether what it picked is there.
import type { SelectionFacts, SelectionPick } from '../host/index.ts';
import type { PlacementRequest } from './types.ts';

const NO_COSTS = new Float64Array(1).fill(Number.NaN);

/** The pick of a request whose place was chosen before. */
export function targetedPick(commitKvCopy: boolean): SelectionPick {
  return { row: 0, costs: NO_COSTS, droppedBy: null, by: 'pinned', ties: 1, randomDraw: null, commitKvCopy };
}

/** Full blocks of a prompt: as many as it has hashes, where these are known. */
export function blocksOf({ blockSize, hashes, promptTokens }: PlacementRequest): number {
  return hashes?.blocks ?? Math.floor(promptTokens / blockSize);
}

/** The pick, whose row must be one of `count`. Throws RangeError. */
export function inRange(pick: SelectionPick, count: number): SelectionPick {
  if (Number.isInteger(pick.row) && pick.row >= 0 && pick.row < count) return pick;
  throw new RangeError(`the policy picked row ${pick.row} of ${count}`);
}

/** The facts of a request; `tracksPrefillTokens` = its prompt counts as load. */
export function factsOf(request: PlacementRequest, tracksPrefillTokens: boolean): SelectionFacts {
  const { constraints } = request;
  return {
    requestId: request.requestId,
    promptTokens: request.promptTokens,
    requestBlocks: Math.ceil(request.promptTokens / request.blockSize),
    blockSize: request.blockSize,
    tracksPrefillTokens,
    session: request.session,
    affinityTarget: request.affinityTarget ?? null,
    pinnedWorker: constraints.pinnedWorker,
    expectedOutputTokens: request.expectedOutputTokens,
    priority: constraints.priority,
    strictPriority: constraints.strictPriority,
    temperatureOverride: constraints.temperature,
    lineage: request.lineage ?? null,
  };
}
