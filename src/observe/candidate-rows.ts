// How recorded candidates lie in memory: a row of doubles each, so that a decision copies numbers and makes no objects.
import { costTerms, type TermFacts } from './cost-terms.ts';
import type { DecisionInput } from './decision-input.ts';
import type { CandidateRecord, IneligibleReason } from './decision-record.ts';

/** Doubles per row: eight input columns, the cost, the worker id in two halves, and rank with reason. */
export const ROW_STRIDE = 12;

const REASONS: readonly (IneligibleReason | null)[] = [
  null,
  'draining',
  'suspect',
  'gone',
  'filtered',
  'not_allowed',
  'missing_taint',
  'not_pinned',
];

/** Copies an eligible (or filtered) candidate. */
export function writeCandidate(into: Float64Array, at: number, input: DecisionInput, row: number): void {
  const { columns } = input;
  const filtered = (input.droppedBy?.[row] ?? null) !== null;
  into[at] = columns.deviceBlocks[row] ?? 0;
  into[at + 1] = columns.hostBlocks[row] ?? 0;
  into[at + 2] = columns.diskBlocks[row] ?? 0;
  into[at + 3] = columns.activePrefillTokens[row] ?? 0;
  into[at + 4] = columns.activeDecodeBlocks[row] ?? 0;
  into[at + 5] = columns.additionalBlocks[row] ?? 0;
  into[at + 6] = columns.activeRequests[row] ?? 0;
  into[at + 7] = columns.preferredTaintMultiplier[row] ?? 1;
  into[at + 8] = input.costs[row] ?? Number.NaN;
  into[at + 9] = columns.idWords[2 * row] ?? 0;
  into[at + 10] = columns.idWords[2 * row + 1] ?? 0;
  into[at + 11] = rankAndReason(columns.ranks[row] ?? 0, filtered ? 'filtered' : null);
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
    const row = from.subarray(start + index * ROW_STRIDE, start + (index + 1) * ROW_STRIDE);
    const [device = 0, host = 0, disk = 0, prefill = 0, decode = 0, additional = 0, requests = 0, taint = 1] =
      row;
    const code = row[11] ?? 0;
    const reason = REASONS[code % 16] ?? null;
    const worker = { worker_id: workerIdAt(row, 0), dp_rank: Math.floor(code / 16) };
    if (reason !== null) {
      const filter = reading.filters?.[index] ?? null;
      return { ...worker, eligible: false, reason, ...(filter === null ? {} : { filter }) };
    }
    const cost = row[8] ?? Number.NaN;
    const inputs = {
      device,
      host,
      disk,
      activePrefillTokens: prefill,
      activeDecodeBlocks: decode,
      additionalBlocks: additional,
      activeRequests: requests,
      taint,
    };
    return {
      ...worker,
      eligible: true,
      overlap_blocks: { device, host, disk, shared: 0 },
      active_prefill_tokens: prefill,
      active_decode_blocks: decode,
      additional_blocks: additional,
      active_requests: requests,
      terms: reading.weights === null ? null : costTerms(reading.weights, reading.facts, inputs),
      cost: Number.isNaN(cost) ? null : cost,
      rank: ranks[index] ?? count,
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
