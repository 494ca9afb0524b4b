// Storage of candidate tables: typed arrays that grow by doubling and never per worker.
import { plainCostColumns } from './cost-scan.ts';
import type { CandidateTable } from './types.ts';

/** An empty table with room for `capacity` rows; taints neutral, everything else 0; no column is said to be superfluous. */
export function createCandidateTable(capacity: number): CandidateTable {
  return {
    count: 0,
    slots: new Int32Array(capacity),
    workerIds: new BigUint64Array(capacity),
    ranks: new Int32Array(capacity),
    hasTierMatches: false,
    hasLowerTierMatches: true,
    hasUnknownLoads: true,
    hasTaintMultipliers: true,
    ...plainCostColumns(capacity),
    preferredTaintMultiplier: new Float64Array(capacity).fill(1),
    occupancy: new Float64Array(capacity),
    onCpu: new Float64Array(capacity),
    mostBookedPromptTokens: Number.POSITIVE_INFINITY,
    timingKind: new Float64Array(capacity),
    averageOutputTokens: null,
    timings: [],
    hasCopies: false,
    copyableBlocks: new Float64Array(capacity),
    sourcePrefixBlocks: new Float64Array(capacity),
    copyLink: null,
  };
}

/** What a table says of the phases of bookings. */
export type PhaseTable = Pick<
  CandidateTable,
  | 'prefillRequests'
  | 'prefillBehind'
  | 'prefillTokens'
  | 'prefillAttention'
  | 'prefillFrontMs'
  | 'decodeRequests'
  | 'bookedPromptTokens'
  | 'mostBookedPromptTokens'
>;

/** Gives a table room for `rows`; contents are lost when it grows. Returns whether its arrays were replaced. */
export function growCandidateTable(table: CandidateTable, rows: number): boolean {
  if (table.slots.length >= rows) return false;
  Object.assign(table, createCandidateTable(Math.max(rows, table.slots.length * 2)));
  return true;
}
