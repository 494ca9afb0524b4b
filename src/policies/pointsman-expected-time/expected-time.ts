// Evaluates the cost over columns. No allocation.
import {
  type Candidates,
  DECODE_BEND,
  type SelectionRequest,
  type TimingColumns,
} from '../../plugin/index.ts';
import type { ExpectedTimeParameters } from './parameters.ts';
import { learnTimes, statedTimes, type Times } from './times.ts';

/** What the cost reads of candidates, but for learnt times. */
export type TimedCandidates = Candidates<
  'cache' | 'in-flight-blocks' | 'request-phases' | 'output-length' | 'preferred-taint'
>;

/** The cost of one configured policy. */
export class ExpectedTime {
  readonly #parameters: ExpectedTimeParameters;
  readonly #times: Times;
  readonly #hostTokenMs: number;

  constructor(parameters: ExpectedTimeParameters) {
    this.#parameters = parameters;
    this.#times = statedTimes(parameters.timing);
    // Bits over bits per ms.
    this.#hostTokenMs = (parameters.kv_bytes_per_token * 8) / (parameters.host_gbps * 1e6);
  }

  /** Writes the cost of every candidate, in ms. @param timing what was learnt; null = nothing is asked. */
  score(
    candidates: TimedCandidates,
    timing: TimingColumns | null,
    costs: Float64Array,
    request: SelectionRequest,
  ): undefined {
    const { count } = candidates;
    const stated = this.#parameters.timing;
    if (timing === null || timing.kinds.length <= 1) {
      if (timing !== null) learnTimes(this.#times, timing, 0, stated);
      this.#scoreRows(candidates, costs, request, 0, count);
      return undefined;
    }
    const { kind } = timing;
    // Rows of a kind mostly stand together.
    for (let from = 0; from < count; ) {
      let end = from + 1;
      while (end < count && kind[end] === kind[from]) end += 1;
      learnTimes(this.#times, timing, kind[from]!, stated);
      this.#scoreRows(candidates, costs, request, from, end);
      from = end;
    }
    return undefined;
  }

  #scoreRows(
    candidates: TimedCandidates,
    costs: Float64Array,
    { blockSize, expectedOutputTokens, promptTokens }: SelectionRequest,
    from: number,
    end: number,
  ): void {
    const { cache, inFlightBlocks, phases, preferredTaintMultiplier } = candidates;
    const { prefillRequests, prefillTokens, prefillAttention, prefillFrontMs } = phases;
    const { decodeRequests, promptTokens: bookedTokens } = phases;
    const { hostBlocks } = cache;
    // Of an index that holds estimates there are no tiers; its overlap stands for the device.
    const deviceBlocks = cache.hasTierMatches ? cache.deviceBlocks : cache.effectiveOverlapBlocks;
    const { default_output_tokens, kv_reference_tokens, prefill_weight } = this.#parameters;
    const { interference_weight, decode_weight } = this.#parameters;
    const hostTokenMs = this.#hostTokenMs;
    const { tokenMs, attentionMs, decodeMs, decodeFillMs } = this.#times;
    const outputTokens = candidates.averageOutputTokens ?? expectedOutputTokens ?? default_output_tokens;
    const outputWeight = decode_weight * outputTokens;
    const perReference = 1 / kv_reference_tokens;
    const bentMs = DECODE_BEND * decodeFillMs;
    const halfAttentionMs = attentionMs / 2;
    // Comparisons instead of Math.min and Math.max, which cost as much as the rest of a row.
    for (let row = from; row < end; row += 1) {
      const device = deviceBlocks[row]!;
      let held = inFlightBlocks[row]!;
      if (held < device) held = device;
      const cached = held * blockSize;
      let tokens = promptTokens - cached;
      if (tokens < 1) tokens = 1;
      const waiting = prefillRequests[row]!;
      let queue = 0;
      if (waiting > 0) {
        queue = tokenMs * prefillTokens[row]! + attentionMs * prefillAttention[row]!;
        const done = prefillFrontMs[row]!;
        // At most the mean of what waits is done of it.
        if (done * waiting < queue) queue -= done;
        else queue -= queue / waiting;
      }
      const weight = prefill_weight + interference_weight * decodeRequests[row]!;
      let time = queue + weight * tokens * (tokenMs + halfAttentionMs * (2 * cached + tokens));
      const onHost = device + hostBlocks[row]! - held;
      if (onHost > 0) {
        const reached = cached + onHost * blockSize;
        let rest = promptTokens - reached;
        if (rest < 1) rest = 1;
        let fetched = onHost * blockSize * hostTokenMs;
        if (fetched < queue) fetched = queue;
        const other = fetched + weight * rest * (tokenMs + halfAttentionMs * (2 * reached + rest));
        if (other < time) time = other;
      }
      let fill = (bookedTokens[row]! + promptTokens) * perReference;
      if (fill > 1) fill = 1;
      const decode = decodeMs + fill * (decodeFillMs - bentMs * fill);
      costs[row] = (time + outputWeight * decode) * preferredTaintMultiplier[row]!;
    }
  }
}
