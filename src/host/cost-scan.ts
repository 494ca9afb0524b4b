// Candidate columns that lie in the memory of the WebAssembly scan, so that nothing is copied to use it, and the scan over them. Memory
// never grows: a table that needs more rows takes new columns, and the old ones stay valid for whoever still looks at them.
import type { CostFacts, CostWeights } from './linear-cost.ts';
import { FRACTIONS } from './powers.ts';
import type { LowestRow, RowChoice } from './row-choice.ts';
import { loadScanKernel, type ScanInstance, type ScanKernel } from './scan-kernel.ts';
import { ROOM, TIME_TERMS } from './time-terms.ts';
import type { CandidateTable } from './types.ts';

/** From so many candidates on the scan is used; with fewer the plain loop is about as fast, see `bench/selection.ts`. */
export const SCAN_FROM = 16;

/** Columns in the order the kernel knows, those that it takes by offset behind them. */
const COLUMNS = [
  'cachedTokens',
  'activePrefillTokens',
  'decodeCostBlocks',
  'costs',
  'hostBlocks',
  'diskBlocks',
  'loadAvailable',
  'activeRequests',
  'preferredTaintMultiplier',
  'effectiveOverlapBlocks',
  'deviceBlocks',
  'inFlightBlocks',
  'prefillRequests',
  'prefillTokens',
  'prefillAttention',
  'prefillFrontMs',
  'decodeRequests',
  'bookedPromptTokens',
  'prefillBehind',
  'cachePressure',
] as const;
const COSTS = COLUMNS.indexOf('costs');
const EFFECTIVE_OVERLAP = COLUMNS.indexOf('effectiveOverlapBlocks');
const DEVICE = COLUMNS.indexOf('deviceBlocks');
const WEIGHTS = COLUMNS.length;
const MASSES = WEIGHTS + 1;

/** The first bytes hold the sum of weights, then come terms of the cost in time, then powers, then the columns. */
const TERMS = 64;
const TABLE = TERMS + 64 * Math.ceil(TIME_TERMS / 8);
const BASE = TABLE + FRACTIONS.byteLength;
/** Rows that the kernel may read and write behind the last. */
const SPARE_ROWS = 8;
/** Between columns, so that rows of different columns do not fall on the same lines of the cache. */
const STAGGER_BYTES = 320;

/** What declared costs read and write of a table. */
export type CostColumns = Pick<CandidateTable, (typeof COLUMNS)[number] | 'scan'>;

/** Columns for `capacity` rows, all 0: in the memory of a scan where there are enough for one and the runtime has it. */
export function createCostColumns(capacity: number): CostColumns {
  if (capacity < SCAN_FROM) return plainCostColumns(capacity);
  const rows = Math.ceil(capacity / SPARE_ROWS) * SPARE_ROWS + SPARE_ROWS;
  const stride = 8 * rows + STAGGER_BYTES;
  const instance = loadScanKernel(BASE + stride * (MASSES + 1));
  if (instance === null) return plainCostColumns(capacity);
  const { buffer } = instance.memory;
  return columnsBy(
    (name) => new Float64Array(buffer, BASE + stride * COLUMNS.indexOf(name), capacity),
    new CostScan(instance, stride),
  );
}

/** The same on the heap. */
export function plainCostColumns(capacity: number): CostColumns {
  return columnsBy(() => new Float64Array(capacity), null);
}

function columnsBy(
  column: (name: (typeof COLUMNS)[number]) => Float64Array,
  scan: CostScan | null,
): CostColumns {
  return {
    cachedTokens: column('cachedTokens'),
    activePrefillTokens: column('activePrefillTokens'),
    decodeCostBlocks: column('decodeCostBlocks'),
    costs: column('costs'),
    hostBlocks: column('hostBlocks'),
    diskBlocks: column('diskBlocks'),
    loadAvailable: column('loadAvailable'),
    activeRequests: column('activeRequests'),
    preferredTaintMultiplier: column('preferredTaintMultiplier'),
    effectiveOverlapBlocks: column('effectiveOverlapBlocks'),
    deviceBlocks: column('deviceBlocks'),
    inFlightBlocks: column('inFlightBlocks'),
    prefillRequests: column('prefillRequests'),
    prefillTokens: column('prefillTokens'),
    prefillAttention: column('prefillAttention'),
    prefillFrontMs: column('prefillFrontMs'),
    decodeRequests: column('decodeRequests'),
    bookedPromptTokens: column('bookedPromptTokens'),
    prefillBehind: column('prefillBehind'),
    cachePressure: column('cachePressure'),
    scan,
  };
}

/** The scan over one set of columns. Gives the numbers of the plain loops, to the last bit. */
export class CostScan {
  readonly #kernel: ScanKernel;
  readonly #stride: number;
  readonly #sum: Float64Array;
  /** Terms of the cost in time, for {@link evaluateTimes}. */
  readonly timeTerms: Float64Array;

  constructor({ kernel, memory }: ScanInstance, stride: number) {
    this.#kernel = kernel;
    this.#stride = stride;
    this.#sum = new Float64Array(memory.buffer, 0, 1);
    this.timeTerms = new Float64Array(memory.buffer, TERMS, TIME_TERMS);
    new Float64Array(memory.buffer, TABLE).set(FRACTIONS);
  }

  /**
   * Writes the cost of every row to `table.costs`, where prompts are tracked, the cache counts, and so do taints. Blocks in flight count
   * only without decay.
   * @returns whether all are finite; false also when their sum is not.
   */
  evaluate(
    weights: CostWeights,
    inFlight: boolean,
    table: CandidateTable,
    facts: CostFacts,
    lowest: LowestRow,
  ): boolean {
    const code = inFlight ? this.#runFlying(weights, table, facts) : this.#run(weights, table, facts);
    lowest.row = code >> 2;
    lowest.tied = (code & 2) !== 0;
    return (code & 1) !== 0;
  }

  /**
   * Writes the cost in time of rows `from` to `end` to `table.costs` by `timeTerms`, and takes over a row below the lowest so far.
   * @param more whether blocks on the host tier, or taints, count.
   * @returns whether all are finite; false also when their sum is not.
   */
  evaluateTimes(table: CandidateTable, more: boolean, from: number, end: number, lowest: LowestRow): boolean {
    const kernel = this.#kernel;
    const stride = this.#stride;
    const device = stride * (table.hasTierMatches ? DEVICE : EFFECTIVE_OVERLAP);
    const least = lowest.row < 0 ? Number.POSITIVE_INFINITY : table.costs[lowest.row]!;
    const columns = BASE + 8 * from;
    const count = end - from;
    let code: number;
    if (more) code = kernel.hostTimes(columns, stride, device, count, TERMS, least);
    else {
      const terms = this.timeTerms;
      const evaluate =
        table.mostBookedPromptTokens <= terms[ROOM]! ? kernel.roomyDeviceTimes : kernel.deviceTimes;
      code = evaluate(columns, stride, device, count, TERMS, least, BASE + stride * WEIGHTS);
    }
    if (code >= 0) lowest.row = from + (code >> 2);
    if ((code & 2) !== 0) lowest.tied = true;
    return (code & 1) !== 0;
  }

  /**
   * Samples by softmax at `temperature` > 0 with one draw, as `chooseSampled` does from the costs evaluated last, which must be finite.
   */
  sample(count: number, temperature: number, draw: number): RowChoice {
    const costs = BASE + this.#stride * COSTS;
    const weights = BASE + this.#stride * WEIGHTS;
    const masses = BASE + this.#stride * MASSES;
    const ties = this.#kernel.softmax(costs, weights, masses, TABLE, 0, count, temperature);
    const row = this.#kernel.drawnRow(weights, masses, count, draw * this.#sum[0]!);
    return { row, ties, draw };
  }

  #runFlying(weights: CostWeights, table: CandidateTable, facts: CostFacts): number {
    const kernel = this.#kernel;
    const stride = this.#stride;
    const device = stride * (table.hasTierMatches ? DEVICE : EFFECTIVE_OVERLAP);
    const { promptTokens, blockSize } = facts;
    const credit = weights.overlap_score_credit;
    const scale = weights.prefill_load_scale;
    const requests = weights.decode_active_request_weight;
    if (!readsAllColumns(table, requests)) {
      return kernel.flyingDeviceCosts(
        BASE,
        stride,
        device,
        table.count,
        promptTokens,
        blockSize,
        credit,
        scale,
      );
    }
    return kernel.flyingTierCosts(
      BASE,
      stride,
      device,
      table.count,
      promptTokens,
      blockSize,
      credit,
      scale,
      weights.host_cache_hit_weight,
      weights.disk_cache_hit_weight,
      requests,
    );
  }

  #run(weights: CostWeights, table: CandidateTable, facts: CostFacts): number {
    const kernel = this.#kernel;
    const stride = this.#stride;
    const device = stride * (table.hasTierMatches ? DEVICE : EFFECTIVE_OVERLAP);
    const { count } = table;
    const { promptTokens, blockSize, requestBlocks } = facts;
    const credit = weights.overlap_score_credit;
    const scale = weights.prefill_load_scale;
    const decay = weights.overlap_score_credit_decay;
    const requests = weights.decode_active_request_weight;
    if (!readsAllColumns(table, requests)) {
      return decay > 0
        ? kernel.decayedDeviceCosts(
            BASE,
            stride,
            device,
            count,
            promptTokens,
            blockSize,
            credit,
            scale,
            decay,
            requestBlocks,
          )
        : kernel.deviceCosts(BASE, stride, device, count, promptTokens, blockSize, credit, scale);
    }
    const host = weights.host_cache_hit_weight;
    const disk = weights.disk_cache_hit_weight;
    return decay > 0
      ? kernel.decayedTierCosts(
          BASE,
          stride,
          device,
          count,
          promptTokens,
          blockSize,
          credit,
          scale,
          host,
          disk,
          requests,
          decay,
          requestBlocks,
        )
      : kernel.tierCosts(
          BASE,
          stride,
          device,
          count,
          promptTokens,
          blockSize,
          credit,
          scale,
          host,
          disk,
          requests,
        );
  }
}

/** Whether more counts than blocks on the device, prompts and decode blocks. */
export function readsAllColumns(table: CandidateTable, requestWeight: number): boolean {
  return table.hasLowerTierMatches || table.hasUnknownLoads || table.hasTaintMultipliers || requestWeight > 0;
}
