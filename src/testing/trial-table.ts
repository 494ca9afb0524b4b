// The router's own table from candidates written by hand.
import { type CandidateTable, createCandidateTable } from '../host/index.ts';
import type { WorkerTiming } from '../plugin/index.ts';
import type { TrialCandidate } from './selection-trial.ts';

const NO_TIMING: WorkerTiming = {
  prefillTokenMs: 0,
  prefillAttentionMs: 0,
  prefillPassMs: 0,
  decodeMs: 0,
  decodeFillMs: 0,
  kvReferenceTokens: 1_048_576,
  prefillConfidence: 0,
  decodeConfidence: 0,
  prefillObservations: 0,
  decodeObservations: 0,
  prefillError: 0,
  decodeError: 0,
};

/** Candidates as the router's own table. */
export function trialTable(candidates: readonly TrialCandidate[]): CandidateTable {
  const table = createCandidateTable(candidates.length);
  table.count = candidates.length;
  table.hasCopies = true;
  table.copyLink = candidates.find(({ copies }) => copies?.link)?.copies?.link ?? null;
  table.timings = candidates.map(({ timing }) => Object.freeze({ ...NO_TIMING, ...timing }));
  for (const [row, candidate] of candidates.entries()) {
    const { cache = {}, copies, load, phases = {} } = candidate;
    const { occupancy = 0, preferredTaintMultiplier = 1 } = candidate;
    table.slots[row] = row;
    table.workerIds[row] = candidate.workerId ?? BigInt(row + 1);
    table.ranks[row] = candidate.rank ?? 0;
    table.effectiveOverlapBlocks[row] = cache.effectiveOverlapBlocks ?? 0;
    table.cachedTokens[row] = cache.cachedTokens ?? 0;
    table.deviceBlocks[row] = cache.deviceBlocks ?? 0;
    table.hostBlocks[row] = cache.hostBlocks ?? 0;
    table.diskBlocks[row] = cache.diskBlocks ?? 0;
    if (cache.hasTierMatches === true) table.hasTierMatches = true;
    table.loadAvailable[row] = load?.available ?? (load === undefined ? 0 : 1);
    table.activePrefillTokens[row] = load?.activePrefillTokens ?? 0;
    table.decodeCostBlocks[row] = load?.decodeCostBlocks ?? 0;
    table.activeRequests[row] = load?.activeRequests ?? 0;
    table.preferredTaintMultiplier[row] = preferredTaintMultiplier;
    table.occupancy[row] = occupancy;
    table.onCpu[row] = candidate.onCpu === true ? 1 : 0;
    table.inFlightBlocks[row] = candidate.inFlightBlocks ?? 0;
    table.prefillRequests[row] = phases.prefillRequests ?? 0;
    table.prefillTokens[row] = phases.prefillTokens ?? 0;
    table.prefillAttention[row] = phases.prefillAttention ?? 0;
    table.prefillFrontMs[row] = phases.prefillFrontMs ?? 0;
    table.decodeRequests[row] = phases.decodeRequests ?? 0;
    table.bookedPromptTokens[row] = phases.promptTokens ?? 0;
    table.cachePressure[row] = candidate.cachePressure ?? 0;
    table.timingKind[row] = row;
    table.copyableBlocks[row] = copies?.copyableBlocks ?? 0;
    table.sourcePrefixBlocks[row] = copies?.sourcePrefixBlocks ?? 0;
  }
  return table;
}
