// How recorded candidates lie in memory: a row of doubles each, so that a decision copies numbers and makes no objects.
import { costTerms, type TermFacts } from './cost-terms.ts';
import type { DecisionInput } from './decision-input.ts';
import type { CandidateRecord, IneligibleReason } from './decision-record.ts';
import {
  TIME_INPUTS,
  type TimedCandidate,
  type TimeInputs,
  type TimeTermFacts,
  timeInputNames,
  timeTerms,
} from './time-cost-terms.ts';

/** Doubles of every row: eight input columns, the cost, the worker id in two halves, rank with reason, copyable blocks, and kind. */
const COMMON = 14;

/** Doubles per row of a decision; where a cost in time decided, what that read lies behind the others. */
export function rowStride({ timeCost }: Pick<DecisionInput, 'timeCost'>): number {
  return timeCost == null ? COMMON : COMMON + timeInputNames(timeCost).length;
}

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

/** Ways of choosing that ask for the cheapest rank of a worker which somebody named: preferred taints do not count then. */
const GIVEN: ReadonlySet<string> = new Set(['pinned', 'affinity']);

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
  const stride = rowStride(input);
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
    at += stride;
  }
  if (input.timeCost == null) return;
  const names = timeInputNames(input.timeCost);
  for (let nth = 0; nth < names.length; nth += 1) {
    const column = input.columns[TIME_INPUTS[names[nth]!]];
    at = start + COMMON + nth;
    for (let index = 0; index < count; index += 1, at += stride) into[at] = column?.[rows[index]!] ?? 0;
  }
}

/** Copies one who was no candidate. */
export function writeExcluded(into: Float64Array, at: number, input: DecisionInput, index: number): void {
  const id = input.excluded.workerId(index);
  into.fill(0, at, at + rowStride(input));
  into[at + 9] = Number(id & 0xffffffffn);
  into[at + 10] = Number(id >> 32n);
  into[at + 11] = rankAndReason(input.excluded.rank(index), input.excluded.reason(index));
}

/** What reading rows needs besides them. */
export interface RowReading {
  readonly stride: number;
  /** Null for policies other than the default cost. */
  readonly weights: Readonly<Record<string, number>> | null;
  readonly facts: TermFacts;
  /** Null for policies without a cost in time. */
  readonly time: TimeTermFacts | null;
  /** Whether preferred taints count: not where the worker was given. */
  readonly taints: boolean;
  /** Filter name per row, where filters dropped somebody. */
  readonly filters: readonly (string | null)[] | null;
  /** Whether kinds were written. */
  readonly hasKinds: boolean;
}

/** How the rows of a decision are read. */
export function rowReading(
  input: DecisionInput,
  leastActivePrefill: number,
  filters: RowReading['filters'],
): RowReading {
  const { blockSize, costWeights: weights, outputTokens = null, promptTokens, timeCost = null } = input;
  const { copyLink = null, timings = null } = input;
  const { role, tracksPrefillTokens } = input;
  const requestBlocks = Math.ceil(promptTokens / blockSize);
  return {
    stride: rowStride(input),
    weights,
    facts: { promptTokens, blockSize, requestBlocks, role, tracksPrefillTokens, leastActivePrefill },
    time: timeCost && { cost: timeCost, promptTokens, blockSize, outputTokens, timings, copyLink },
    taints: !GIVEN.has(input.by),
    filters,
    hasKinds: timings !== null,
  };
}

/** Reads `count` rows back; ranks go by cost among the rows kept, the cheapest first. */
export function readCandidates(
  from: Float64Array,
  start: number,
  count: number,
  reading: RowReading,
): CandidateRecord[] {
  const { stride, time } = reading;
  const ranks = ranksOf(from, start, count, stride);
  return Array.from({ length: count }, (_, index): CandidateRecord => {
    const at = start + index * stride;
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
      taint: reading.taints ? (from[at + 7] ?? 1) : 1,
    };
    const { device, host, disk, shared, taint } = inputs;
    const kind = from[at + 13] ?? 0;
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
      ...(reading.hasKinds ? { timing: kind } : {}),
      ...(time === null
        ? {}
        : timed(time, { device, host, shared, taint, kind, inputs: timeInputs(time, from, at) })),
    };
  });
}

function timeInputs({ cost }: TimeTermFacts, from: Float64Array, at: number): TimeInputs {
  return Object.fromEntries(
    timeInputNames(cost).map((name, nth) => [name, from[at + COMMON + nth] ?? 0]),
  ) as TimeInputs;
}

function timed(facts: TimeTermFacts, candidate: TimedCandidate) {
  const terms = timeTerms(facts, candidate);
  return { time_inputs: candidate.inputs, ...(terms === null ? {} : { time_terms: terms }) };
}

/** Worker id of the row that starts at `start`. */
export function workerIdAt(from: Float64Array, start: number): bigint {
  return (BigInt(from[start + 10] ?? 0) << 32n) | BigInt(from[start + 9] ?? 0);
}

function rankAndReason(rank: number, reason: IneligibleReason | null): number {
  return rank * 16 + REASONS.indexOf(reason);
}

function ranksOf(from: Float64Array, start: number, count: number, stride: number): number[] {
  const costOf = (index: number): number => {
    const at = start + index * stride;
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
