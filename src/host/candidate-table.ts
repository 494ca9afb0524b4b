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

/** Copies all rows of `source` to `target`, which has room. */
export function copyRows(source: CandidateTable, target: CandidateTable): void {
  const { count } = source;
  copyFlags(source, target);
  target.count = count;
  for (let row = 0; row < count; row += 1) {
    target.slots[row] = source.slots[row]!;
    target.workerIds[row] = source.workerIds[row]!;
    target.ranks[row] = source.ranks[row]!;
  }
  copy(source.effectiveOverlapBlocks, count, target.effectiveOverlapBlocks);
  copy(source.cachedTokens, count, target.cachedTokens);
  copy(source.deviceBlocks, count, target.deviceBlocks);
  copy(source.hostBlocks, count, target.hostBlocks);
  copy(source.diskBlocks, count, target.diskBlocks);
  copy(source.loadAvailable, count, target.loadAvailable);
  copy(source.activePrefillTokens, count, target.activePrefillTokens);
  copy(source.decodeCostBlocks, count, target.decodeCostBlocks);
  copy(source.activeRequests, count, target.activeRequests);
  copy(source.preferredTaintMultiplier, count, target.preferredTaintMultiplier);
  copy(source.occupancy, count, target.occupancy);
  if (!source.hasCopies) return;
  copy(source.copyableBlocks, count, target.copyableBlocks);
  copy(source.sourcePrefixBlocks, count, target.sourcePrefixBlocks);
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
  // One by one: a loop over names would look every array up by name again.
  gather(source.effectiveOverlapBlocks, from, count, target.effectiveOverlapBlocks);
  gather(source.cachedTokens, from, count, target.cachedTokens);
  gather(source.deviceBlocks, from, count, target.deviceBlocks);
  gather(source.hostBlocks, from, count, target.hostBlocks);
  gather(source.diskBlocks, from, count, target.diskBlocks);
  gather(source.loadAvailable, from, count, target.loadAvailable);
  gather(source.activePrefillTokens, from, count, target.activePrefillTokens);
  gather(source.decodeCostBlocks, from, count, target.decodeCostBlocks);
  gather(source.activeRequests, from, count, target.activeRequests);
  gather(source.preferredTaintMultiplier, from, count, target.preferredTaintMultiplier);
  gather(source.occupancy, from, count, target.occupancy);
  if (source.hasCopies) {
    gather(source.copyableBlocks, from, count, target.copyableBlocks);
    gather(source.sourcePrefixBlocks, from, count, target.sourcePrefixBlocks);
  }
  copyFlags(source, target);
  target.count = count;
}

function copyFlags(source: CandidateTable, target: CandidateTable): void {
  target.hasTierMatches = source.hasTierMatches;
  target.hasLowerTierMatches = source.hasLowerTierMatches;
  target.hasUnknownLoads = source.hasUnknownLoads;
  target.hasTaintMultipliers = source.hasTaintMultipliers;
  target.hasCopies = source.hasCopies;
}

/** Below some hundred rows a loop is faster than a view to copy from. */
const FEW = 128;

function copy(read: Float64Array, count: number, write: Float64Array): void {
  if (count > FEW) write.set(read.subarray(0, count));
  else for (let row = 0; row < count; row += 1) write[row] = read[row]!;
}

function gather(read: Float64Array, from: Int32Array, count: number, write: Float64Array): void {
  for (let row = 0; row < count; row += 1) write[row] = read[from[row]!]!;
}
