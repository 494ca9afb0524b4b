// The candidates of Dynamo's published `default_worker_selection` benchmark, as columns.
import {
  createCandidateTable,
  createCostColumns,
  type SelectionFacts,
  shareBehind,
} from '../src/host/index.ts';
import type { PlacementTable } from '../src/scheduling/index.ts';

/** Tokens per block. */
export const BLOCK_SIZE = 16;
/** Tokens of the prompt. */
export const PROMPT_TOKENS = 2048;

/** What is known of the request. */
export const FACTS: SelectionFacts = {
  requestId: 'bench',
  promptTokens: PROMPT_TOKENS,
  requestBlocks: PROMPT_TOKENS / BLOCK_SIZE,
  blockSize: BLOCK_SIZE,
  tracksPrefillTokens: true,
  session: null,
  affinityTarget: null,
  pinnedWorker: null,
  expectedOutputTokens: 256,
  priority: 0,
  strictPriority: 0,
  temperatureOverride: null,
};

/**
 * The candidates, as scheduling says of a fleet with blocks on the device tier only and a request without taints.
 * @param place where the columns lie: as scheduling has them, or on the heap, where only plain loops go over them.
 */
export function candidates(workers: number, place: 'as scheduled' | 'heap' = 'as scheduled'): PlacementTable {
  const columns = createCandidateTable(workers);
  const table: PlacementTable = {
    ...columns,
    ...(place === 'heap' ? {} : createCostColumns(workers)),
    count: workers,
    hasLowerTierMatches: false,
    hasUnknownLoads: false,
    hasTaintMultipliers: false,
    mostBookedPromptTokens: 2048 * 16,
    idWords: new Uint32Array(columns.workerIds.buffer),
    activeDecodeBlocks: new Float64Array(workers),
    additionalBlocks: new Float64Array(workers),
  };
  table.preferredTaintMultiplier.fill(1);
  for (let i = 0; i < workers; i += 1) {
    table.slots[i] = i;
    table.workerIds[i] = BigInt(i);
    table.cachedTokens[i] = (i % 32) * 64;
    table.effectiveOverlapBlocks[i] = ((i % 32) * 64) / BLOCK_SIZE;
    table.loadAvailable[i] = 1;
    table.activePrefillTokens[i] = 16 * i;
    table.decodeCostBlocks[i] = i % 127;
    table.activeRequests[i] = i % 17;
    table.decodeRequests[i] = i % 17;
    table.inFlightBlocks[i] = i % 13 === 0 ? 64 : 0;
    table.prefillRequests[i] = i % 3;
    table.prefillBehind[i] = shareBehind(i % 3);
    table.prefillTokens[i] = (i % 3) * 512;
    table.prefillAttention[i] = (i % 3) * 512 * 700;
    table.prefillFrontMs[i] = i % 3 === 0 ? 0 : i % 11;
    table.bookedPromptTokens[i] = 2048 * (i % 17);
    table.cachePressure[i] = (i % 101) / 101;
  }
  return table;
}
