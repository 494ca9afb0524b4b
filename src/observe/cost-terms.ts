// The terms of the default cost, recomputed from what was recorded when somebody asks. The formula stands in the README of the
// policy dynamo-default-cost-fn; a test holds this to recorded costs.
import type { CostTerms } from './decision-record.ts';

/** Facts of a request that the terms rest on. */
export interface TermFacts {
  readonly promptTokens: number;
  readonly blockSize: number;
  /** ceil(prompt tokens / block size). */
  readonly requestBlocks: number;
  readonly role: string;
  readonly tracksPrefillTokens: boolean;
  /** Least active prefill tokens among the eligible. */
  readonly leastActivePrefill: number;
}

/** Recorded inputs of one candidate. Blocks; prefill in tokens. */
export interface TermInputs {
  readonly device: number;
  readonly host: number;
  readonly disk: number;
  /** Blocks that a peer could copy, or that a shared cache holds. */
  readonly shared?: number;
  readonly activePrefillTokens: number;
  readonly activeDecodeBlocks: number;
  readonly additionalBlocks: number;
  readonly activeRequests: number;
  readonly taint: number;
}

/**
 * Terms such that cost = (prefill + decode_blocks + request_weight) × taint; `prefill` is scaled by prefill_load_scale, and
 * where credit is taken from decode blocks instead, `decode_blocks` is what is left of them.
 */
export function costTerms(
  weights: Readonly<Record<string, number>>,
  facts: TermFacts,
  inputs: TermInputs,
): CostTerms {
  const creditWeight = weights.overlap_score_credit ?? 1;
  const hostWeight = weights.host_cache_hit_weight ?? 0.75;
  const diskWeight = weights.disk_cache_hit_weight ?? 0.25;
  const decayWeight = weights.overlap_score_credit_decay ?? 0;
  const cache = creditWeight > 0;
  const { promptTokens, blockSize, requestBlocks, tracksPrefillTokens } = facts;
  const overlap = cache ? inputs.device + inputs.host * hostWeight + inputs.disk * diskWeight : 0;
  const cached = Math.round(overlap * blockSize);
  const rawTokens = tracksPrefillTokens
    ? inputs.activePrefillTokens + Math.max(0, promptTokens - cached) + cached
    : 0;
  const excess = (inputs.activePrefillTokens - facts.leastActivePrefill) / blockSize;
  const decay = tracksPrefillTokens && decayWeight > 0 ? 1 / (1 + (decayWeight * excess) / requestBlocks) : 1;
  const copied = (weights.shared_cache_multiplier ?? 0) * (inputs.shared ?? 0);
  const local = cache
    ? creditWeight * decay * inputs.device + hostWeight * inputs.host + diskWeight * inputs.disk
    : 0;
  const credit = local + copied;
  const decodeBlocks = inputs.activeDecodeBlocks + inputs.additionalBlocks;
  const creditAgainstDecode = facts.role === 'decode' && !tracksPrefillTokens && (cache || copied > 0);
  return {
    raw_prefill_blocks: rawTokens / blockSize,
    credit,
    decay,
    prefill: creditAgainstDecode
      ? 0
      : (weights.prefill_load_scale ?? 1) * Math.max(0, rawTokens / blockSize - credit),
    decode_blocks: creditAgainstDecode ? Math.max(0, decodeBlocks - credit) : decodeBlocks,
    request_weight: (weights.decode_active_request_weight ?? 0) * inputs.activeRequests,
    taint: inputs.taint,
  };
}
