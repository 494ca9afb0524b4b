// How recorded candidates lie in memory: a row of doubles each, so that a decision copies numbers and makes no objects.
import { costTerms, type TermFacts } from './cost-terms.ts';
import type { DecisionInput } from './decision-input.ts';
import type { CandidateRecord, IneligibleReason } from './decision-record.ts';

/** Doubles per row: eight input columns, the cost, the worker id in two halves, rank with reason, copyable blocks, and kind. */
export const ROW_STRIDE = 14;

const REASONS: readonly (IneligibleReason | null)[] = [
  null,
  'draining',
  'suspect',
  'gone',
  'filtered',
  'not_allowed',
  'missing_taint',
  'not_pinned',
  'busy',
  'missing_adapter',
  'excluded',
];

const FILTERED = REASONS.indexOf('filtered');

/** Copies eligible (or filtered) candidates: those in `rows[0 … count)`, one behind the other from `start` on. */
export function writeCandidates(
  into: Float64Array,
  start: number,
  input: DecisionInput,
  rows: Int32Array,
  count: number,
): void {
  const { costs, droppedBy } = input;
  const { deviceBlocks, hostBlocks, diskBlocks, activePrefillTokens, activeDecodeBlocks } = input.columns;
  const { additionalBlocks, activeRequests, preferredTaintMultiplier, idWords, ranks } = input.columns;
  const copyable = input.columns.hasCopies === true ? input.columns.copyableBlocks : undefined;
  const kinds = input.timings == null ? undefined : input.columns.timingKind;
  let at = start;
  for (let index = 0; index < count; index += 1) {
    const row = rows[index]!;
    into[at] = deviceBlocks[row]!;
    into[at + 1] = hostBlocks[row]!;
    into[at + 2] = diskBlocks[row]!;
    into[at + 3] = activePrefillTokens[row]!;
    into[at + 4] = activeDecodeBlocks[row]!;
    into[at + 5] = additionalBlocks[row]!;
    into[at + 6] = activeRequests[row]!;
    into[at + 7] = preferredTaintMultiplier[row]!;
    into[at + 8] = costs[row]!;
    into[at + 9] = idWords[2 * row]!;
    into[at + 10] = idWords[2 * row + 1]!;
    into[at + 11] = ranks[row]! * 16;
    if (droppedBy !== null && (droppedBy[row] ?? null) !== null) into[at + 11] = ranks[row]! * 16 + FILTERED;
    into[at + 12] = copyable === undefined ? 0 : copyable[row]!;
    into[at + 13] = kinds === undefined ? 0 : kinds[row]!;
    at += ROW_STRIDE;
  }
}

/** Copies one who was no candidate. */
export function writeExcluded(into: Float64Array, at: number, input: DecisionInput, index: number): void {
  const id = input.excluded.workerId(index);
  into.fill(0, at, at + ROW_STRIDE);
  into[at + 9] = Number(id & 0xffffffffn);
  into[at + 10] = Number(id >> 32n);
  into[at + 11] = rankAndReason(input.excluded.rank(index), input.excluded.reason(index));
}

/** What reading rows needs besides them. */
export interface RowReading {
  /** Null for policies other than the default cost. */
  readonly weights: Readonly<Record<string, number>> | null;
  readonly facts: TermFacts;
  /** Filter name per row, where filters dropped somebody. */
  readonly filters: readonly (string | null)[] | null;
  /** Whether kinds were written. */
  readonly hasKinds: boolean;
}

/** Reads `count` rows back; ranks go by cost among the rows kept, the cheapest first. */
export function readCandidates(
  from: Float64Array,
  start: number,
  count: number,
  reading: RowReading,
): CandidateRecord[] {
  const ranks = ranksOf(from, start, count);
  return Array.from({ length: count }, (_, index): CandidateRecord => {
    const at = start + index * ROW_STRIDE;
    const code = from[at + 11] ?? 0;
    const reason = REASONS[code % 16] ?? null;
    const worker = { worker_id: workerIdAt(from, at), dp_rank: Math.floor(code / 16) };
    if (reason !== null) {
      const filter = reading.filters?.[index] ?? null;
      return { ...worker, eligible: false, reason, ...(filter === null ? {} : { filter }) };
    }
    const cost = from[at + 8] ?? Number.NaN;
    const inputs = {
      device: from[at] ?? 0,
      host: from[at + 1] ?? 0,
      disk: from[at + 2] ?? 0,
      shared: from[at + 12] ?? 0,
      activePrefillTokens: from[at + 3] ?? 0,
      activeDecodeBlocks: from[at + 4] ?? 0,
      additionalBlocks: from[at + 5] ?? 0,
      activeRequests: from[at + 6] ?? 0,
      taint: from[at + 7] ?? 1,
    };
    const { device, host, disk, shared } = inputs;
    return {
      ...worker,
      eligible: true,
      overlap_blocks: { device, host, disk, shared },
      active_prefill_tokens: inputs.activePrefillTokens,
      active_decode_blocks: inputs.activeDecodeBlocks,
      additional_blocks: inputs.additionalBlocks,
      active_requests: inputs.activeRequests,
      terms: reading.weights === null ? null : costTerms(reading.weights, reading.facts, inputs),
      cost: Number.isNaN(cost) ? null : cost,
      rank: ranks[index] ?? count,
      ...(reading.hasKinds ? { timing: from[at + 13] ?? 0 } : {}),
    };
  });
}

/** Worker id of the row that starts at `start`. */
export function workerIdAt(from: Float64Array, start: number): bigint {
  return (BigInt(from[start + 10] ?? 0) << 32n) | BigInt(from[start + 9] ?? 0);
}

function rankAndReason(rank: number, reason: IneligibleReason | null): number {
  return rank * 16 + REASONS.indexOf(reason);
}

function ranksOf(from: Float64Array, start: number, count: number): number[] {
  const costOf = (index: number): number => {
    const at = start + index * ROW_STRIDE;
    const cost = from[at + 8] ?? Number.NaN;
    const eligible = (from[at + 11] ?? 0) % 16 === 0;
    return eligible && !Number.isNaN(cost) ? cost : Number.POSITIVE_INFINITY;
  };
  const order = Array.from({ length: count }, (_, index) => index);
  order.sort((a, b) => Math.sign(costOf(a) - costOf(b)) || a - b);
  const ranks = new Array<number>(count).fill(0);
  order.forEach((index, place) => {
    ranks[index] = place + 1;
  });
  return ranks;
}
