// Copies from peers in the cost in time: lowers the costs of rows that a copy serves sooner than computing. A pass of its own behind the
// plain loop and the scan alike, so that costs which count on no copies are none of a nanosecond slower, and both give the same numbers.
import { expectedCopyMs, type TimeCost } from '../plugin/index.ts';
import type { LowestRow } from './row-choice.ts';
import {
  ATTENTION,
  BLOCK,
  CROWDS,
  DECODES,
  FLOOR,
  FULL,
  lateness,
  PAIRS,
  PREFILL,
  READ,
  type TimeFacts,
  TOKEN,
  WAITS,
} from './time-terms.ts';
import type { CandidateTable } from './types.ts';

/**
 * Takes what a copy spares off the costs of rows `from` to `end`, and takes over a row below the lowest so far.
 * @param terms of these rows, as their costs were made of.
 */
export function creditCopies(
  terms: Float64Array,
  { weights }: TimeCost,
  { blockSize }: TimeFacts,
  taints: boolean,
  table: CandidateTable,
  costs: Float64Array,
  from: number,
  end: number,
  lowest: LowestRow,
): void {
  const device = table.hasTierMatches ? table.deviceBlocks : table.effectiveOverlapBlocks;
  const { copyLink, copyableBlocks, hostBlocks, inFlightBlocks, sourcePrefixBlocks } = table;
  const { decodeRequests, prefillRequests, preferredTaintMultiplier, cachePressure } = table;
  const { peer_latency_ms: latencyMs, peer_weight: copying } = weights;
  // Bits over bits per ms.
  const blockMs = (blockSize * weights.kv_bytes_per_token * 8) / (weights.peer_gbps * 1e6);
  const prefill = terms[PREFILL]!;
  const decodes = terms[DECODES]!;
  const waits = terms[WAITS]!;
  const crowds = terms[CROWDS]!;
  const read = terms[READ]!;
  let least = lowest.row < 0 ? Number.POSITIVE_INFINITY : costs[lowest.row]!;
  for (let row = from; row < end; row += 1) {
    const copyable = copyableBlocks[row]!;
    const source = sourcePrefixBlocks[row]!;
    const onDevice = device[row]!;
    let held = inFlightBlocks[row]!;
    if (held < onDevice) held = onDevice;
    // The copy begins when the prompt gets to the front. Where others are before it, another worker has no less to do for the blocks
    // that it takes twice, and by then the peer may have let go of them.
    if (copyable < 1 || source <= held || isWaitedOn(terms, table, row)) continue;
    const own = onDevice + hostBlocks[row]!;
    const rest = computingMs(terms, source);
    const copyMs = expectedCopyMs(copyLink, copyable, latencyMs + copyable * blockMs);
    if (!(copyMs < computingMs(terms, own) - rest)) continue;
    const crowding = crowds * cachePressure[row]!;
    const weight = prefill + decodes * decodeRequests[row]! + waits * prefillRequests[row]! + crowding;
    const full = computingMs(terms, held);
    let alone = weight * full + lateness(terms, full);
    if (own > held) {
      const readMs = (own - held) * read;
      const behind = computingMs(terms, own);
      alone = Math.min(alone, readMs + weight * behind + lateness(terms, readMs + behind));
    }
    const spared = alone - (copying * copyMs + weight * rest + lateness(terms, copyMs + rest));
    if (!(spared > 0)) continue;
    const cost = costs[row]! - (taints ? preferredTaintMultiplier[row]! * spared : spared);
    costs[row] = cost;
    if (cost < least) {
      least = cost;
      lowest.row = row;
    } else if (cost === least && row !== lowest.row) lowest.tied = true;
  }
}

/** Ms to compute the prompt after so many blocks of it. */
function computingMs(terms: Float64Array, blocks: number): number {
  return Math.max(terms[FLOOR]!, terms[FULL]! - blocks * (terms[BLOCK]! + terms[PAIRS]! * blocks));
}

/** Whether something is left of the prompts before this one; false also where the last of them is overdue. */
function isWaitedOn(terms: Float64Array, table: CandidateTable, row: number): boolean {
  const prompts = table.prefillRequests[row]!;
  if (prompts === 0) return false;
  const sum = terms[TOKEN]! * table.prefillTokens[row]! + terms[ATTENTION]! * table.prefillAttention[row]!;
  return sum - Math.min(table.prefillFrontMs[row]!, sum / prompts) > 0;
}
