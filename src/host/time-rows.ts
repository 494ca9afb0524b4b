// The plain loop of the cost in time. wasm/time.ts does the same operations in the same order with two rows at once. What it leaves out
// for rows without blocks on the host tier or taints is the lesser of two equal times and × 1, so the numbers are the same.
import type { LowestRow } from './row-choice.ts';
import {
  ATTENTION,
  BEND,
  BLOCK,
  DECODES,
  FLOOR,
  FULL,
  IDLE,
  LATE,
  PAIRS,
  PREFILL,
  READ,
  ROOM,
  SLOPE,
  TARGET,
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
  const { decodeRequests, bookedPromptTokens, preferredTaintMultiplier } = table;
  const full = terms[FULL]!;
  const floor = terms[FLOOR]!;
  const block = terms[BLOCK]!;
  const pairs = terms[PAIRS]!;
  const token = terms[TOKEN]!;
  const attention = terms[ATTENTION]!;
  const prefill = terms[PREFILL]!;
  const decodes = terms[DECODES]!;
  const waits = terms[WAITS]!;
  const late = terms[LATE]!;
  const target = terms[TARGET]!;
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
    // At most the mean of what waits is done of it. Where nobody waits the mean is no number, and nothing is left of the time at the front.
    const waiting = prefillRequests[row]!;
    const mean = sum / waiting;
    let done = prefillFrontMs[row]!;
    if (mean < done) done = mean;
    let queue = sum - done;
    if (queue < 0) queue = 0;
    const weight = prefill + decodes * decodeRequests[row]! + waits * waiting;
    let computing = full - held * (block + pairs * held);
    if (computing < floor) computing = floor;
    let over = queue + computing - target;
    if (over < 0) over = 0;
    let time = queue + weight * computing + late * over;
    const reached = onDevice + hostBlocks[row]!;
    if (reached > held) {
      let rest = full - reached * (block + pairs * reached);
      if (rest < floor) rest = floor;
      let fetched = (reached - held) * read;
      if (fetched < queue) fetched = queue;
      over = fetched + rest - target;
      if (over < 0) over = 0;
      const other = fetched + weight * rest + late * over;
      if (other < time) time = other;
    }
    let booked = bookedPromptTokens[row]!;
    if (room < booked) booked = room;
    let cost = time + (idle + booked * (slope - bend * booked));
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
