// The plain loop of the cost in time. wasm/time.ts does the same operations in the same order with two rows at once. What it leaves out
// for rows without blocks on the host tier or taints is the lesser of two equal times and × 1, so the numbers are the same.
import type { LowestRow } from './row-choice.ts';
import {
  ATTENTION,
  BEND,
  BLOCK,
  CROWDS,
  DECODES,
  EARLY,
  FLOOR,
  FULL,
  IDLE,
  LATE,
  PAIRS,
  PREFILL,
  READ,
  ROOM,
  SLOPE,
  shareBehind,
  TOKEN,
  WAITS,
} from './time-terms.ts';
import type { CandidateTable } from './types.ts';

/**
 * Writes the costs of rows `from` to `end` and takes over a row below the lowest so far.
 * @returns their sum.
 */
export function timeRows(
  terms: Float64Array,
  taints: boolean,
  table: CandidateTable,
  costs: Float64Array,
  from: number,
  end: number,
  lowest: LowestRow,
): number {
  // Of an index that holds estimates there are no tiers; its overlap stands for the device.
  const device = table.hasTierMatches ? table.deviceBlocks : table.effectiveOverlapBlocks;
  const { hostBlocks, inFlightBlocks, prefillRequests, prefillTokens, prefillAttention, prefillFrontMs } =
    table;
  const { decodeRequests, bookedPromptTokens, preferredTaintMultiplier, cachePressure } = table;
  const full = terms[FULL]!;
  const floor = terms[FLOOR]!;
  const block = terms[BLOCK]!;
  const pairs = terms[PAIRS]!;
  const token = terms[TOKEN]!;
  const attention = terms[ATTENTION]!;
  const prefill = terms[PREFILL]!;
  const decodes = terms[DECODES]!;
  const waits = terms[WAITS]!;
  const crowds = terms[CROWDS]!;
  const late = terms[LATE]!;
  const early = terms[EARLY]!;
  const room = terms[ROOM]!;
  const idle = terms[IDLE]!;
  const slope = terms[SLOPE]!;
  const bend = terms[BEND]!;
  const read = terms[READ]!;
  let least = lowest.row < 0 ? Number.POSITIVE_INFINITY : costs[lowest.row]!;
  let total = 0;
  // Comparisons instead of Math.min and Math.max, which cost as much as the rest of a row.
  for (let row = from; row < end; row += 1) {
    const onDevice = device[row]!;
    let held = inFlightBlocks[row]!;
    if (held < onDevice) held = onDevice;
    const sum = token * prefillTokens[row]! + attention * prefillAttention[row]!;
    const waiting = prefillRequests[row]!;
    const behind = sum * shareBehind(waiting);
    let queue = sum - prefillFrontMs[row]!;
    if (queue < behind) queue = behind;
    const weight = prefill + decodes * decodeRequests[row]! + waits * waiting + crowds * cachePressure[row]!;
    let computing = full - held * (block + pairs * held);
    if (computing < floor) computing = floor;
    let lateness = late * (queue + computing) - early;
    if (lateness < idle) lateness = idle;
    let time = queue + weight * computing + lateness;
    const reached = onDevice + hostBlocks[row]!;
    if (reached > held) {
      let rest = full - reached * (block + pairs * reached);
      if (rest < floor) rest = floor;
      let fetched = (reached - held) * read;
      if (fetched < queue) fetched = queue;
      lateness = late * (fetched + rest) - early;
      if (lateness < idle) lateness = idle;
      const other = fetched + weight * rest + lateness;
      if (other < time) time = other;
    }
    let booked = bookedPromptTokens[row]!;
    if (room < booked) booked = room;
    let cost = time + booked * (slope - bend * booked);
    if (taints) cost *= preferredTaintMultiplier[row]!;
    total += cost;
    costs[row] = cost;
    if (cost <= least) {
      if (cost < least) {
        least = cost;
        lowest.row = row;
      } else lowest.tied = true;
    }
  }
  return total;
}
