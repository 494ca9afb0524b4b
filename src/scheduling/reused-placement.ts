// The one object that a scheduler answers every placement with.
import type { ExcludedRows, Placement, PlacementTable } from './types.ts';

/** A placement that can be written to. */
export type MutablePlacement = { -readonly [K in keyof Placement]: Placement[K] };

/** A placement that says nothing yet. */
export function reusedPlacement(table: PlacementTable, excluded: ExcludedRows): MutablePlacement {
  return {
    attempt: 0,
    slot: 0,
    workerId: 0n,
    rank: 0,
    row: 0,
    pick: { row: 0, costs: new Float64Array(0), droppedBy: null, by: 'policy', ties: 0, randomDraw: null },
    table,
    excluded,
    prefillTokens: 0,
    decodeBlocks: 0,
    costWeights: null,
    tracksPrefillTokens: true,
    fellBackOn: null,
    commit: null,
  };
}
