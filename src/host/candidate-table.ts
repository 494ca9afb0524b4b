// Storage of candidate tables: typed arrays that grow by doubling and never per worker.
import type { CandidateTable } from './types.ts';

/** Columns of a table that hold one number per candidate. */
export const FLOAT_COLUMNS = [
  'effectiveOverlapBlocks',
  'cachedTokens',
  'deviceBlocks',
  'hostBlocks',
  'diskBlocks',
  'loadAvailable',
  'activePrefillTokens',
  'decodeCostBlocks',
  'activeRequests',
  'preferredTaintMultiplier',
  'occupancy',
] as const satisfies readonly (keyof CandidateTable)[];

/** An empty table with room for `capacity` rows; taints neutral, everything else 0; no column is said to be superfluous. */
export function createCandidateTable(capacity: number): CandidateTable {
  return {
    count: 0,
    slots: new Int32Array(capacity),
    workerIds: new BigUint64Array(capacity),
    ranks: new Int32Array(capacity),
    effectiveOverlapBlocks: new Float64Array(capacity),
    cachedTokens: new Float64Array(capacity),
    deviceBlocks: new Float64Array(capacity),
    hostBlocks: new Float64Array(capacity),
    diskBlocks: new Float64Array(capacity),
    hasTierMatches: false,
    hasLowerTierMatches: true,
    hasUnknownLoads: true,
    hasTaintMultipliers: true,
    loadAvailable: new Float64Array(capacity),
    activePrefillTokens: new Float64Array(capacity),
    decodeCostBlocks: new Float64Array(capacity),
    activeRequests: new Float64Array(capacity),
    preferredTaintMultiplier: new Float64Array(capacity).fill(1),
    occupancy: new Float64Array(capacity),
  };
}

/** Gives a table room for `rows`; contents are lost when it grows. Returns whether its arrays were replaced. */
export function growCandidateTable(table: CandidateTable, rows: number): boolean {
  if (table.slots.length >= rows) return false;
  Object.assign(table, createCandidateTable(Math.max(rows, table.slots.length * 2)));
  return true;
}

/** Copies rows `from[0 … count)` of `source` to rows 0 … of `target`, which has room. Source and target may be the same table if `from` ascends. */
export function gatherRows(
  source: CandidateTable,
  from: Int32Array,
  count: number,
  target: CandidateTable,
): void {
  for (let row = 0; row < count; row += 1) {
    const at = from[row]!;
    target.slots[row] = source.slots[at]!;
    target.workerIds[row] = source.workerIds[at]!;
    target.ranks[row] = source.ranks[at]!;
  }
  for (const name of FLOAT_COLUMNS) {
    const read = source[name];
    const write = target[name];
    for (let row = 0; row < count; row += 1) write[row] = read[from[row]!]!;
  }
  target.hasTierMatches = source.hasTierMatches;
  target.hasLowerTierMatches = source.hasLowerTierMatches;
  target.hasUnknownLoads = source.hasUnknownLoads;
  target.hasTaintMultipliers = source.hasTaintMultipliers;
  target.count = count;
}
