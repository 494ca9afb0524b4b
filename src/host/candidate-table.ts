// Storage of candidate tables: typed arrays that grow by doubling and never per worker.
import type { CandidateTable } from './types.ts';

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
    onCpu: new Float64Array(capacity),
    hasCopies: false,
    copyableBlocks: new Float64Array(capacity),
    sourcePrefixBlocks: new Float64Array(capacity),
  };
}

/** Gives a table room for `rows`; contents are lost when it grows. Returns whether its arrays were replaced. */
export function growCandidateTable(table: CandidateTable, rows: number): boolean {
  if (table.slots.length >= rows) return false;
  Object.assign(table, createCandidateTable(Math.max(rows, table.slots.length * 2)));
  return true;
}
