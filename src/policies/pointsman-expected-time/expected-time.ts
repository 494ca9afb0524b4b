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
    const { default_output_tokens, kv_reference_tokens, ...parameters } = this.#parameters;
    const { prefill_weight, interference_weight, decode_weight } = parameters;
    const { tokenMs, attentionMs, decodeMs, decodeFillMs } = this.#times;
    const outputTokens = candidates.averageOutputTokens ?? expectedOutputTokens ?? default_output_tokens;
    const outputWeight = decode_weight * outputTokens;
    for (let row = from; row < end; row += 1) {
      const device = deviceBlocks[row]!;
      const held = Math.max(device, inFlightBlocks[row]!);
      const cached = held * blockSize;
      const tokens = Math.max(1, promptTokens - cached);
      const waiting = prefillRequests[row]!;
      let queue = 0;
      if (waiting > 0) {
        const booked = tokenMs * prefillTokens[row]! + attentionMs * prefillAttention[row]!;
        queue = Math.max(0, booked - Math.min(prefillFrontMs[row]!, booked / waiting));
      }
      const weight = prefill_weight + interference_weight * decodeRequests[row]!;
      let time = queue + weight * tokens * (tokenMs + attentionMs * (cached + tokens / 2));
      const onHost = device + hostBlocks[row]! - held;
      if (onHost > 0) {
        const reached = cached + onHost * blockSize;
        const rest = Math.max(1, promptTokens - reached);
        const fetched = Math.max(queue, onHost * blockSize * this.#hostTokenMs);
        time = Math.min(time, fetched + weight * rest * (tokenMs + attentionMs * (reached + rest / 2)));
      }
      const fill = Math.min(1, (bookedTokens[row]! + promptTokens) / kv_reference_tokens);
      const decode = decodeMs + decodeFillMs * fill * (1 - DECODE_BEND * fill);
      costs[row] = (time + outputWeight * decode) * preferredTaintMultiplier[row]!;
    }
  }
}
