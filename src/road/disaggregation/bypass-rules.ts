// When a decode worker had better compute a prompt itself, although a prefill worker could: conditional disaggregation. Rules and
// numbers: lib/kv-router conditional_disagg. Pure functions of what two probes saw.
import type { ConditionalDisaggregation } from '../../config/index.ts';

/** What was seen; null = not known. */
export interface BypassFacts {
  readonly promptTokens: number;
  /** Of these, cached on the decode worker that would be chosen. */
  readonly cachedTokens: number;
  /** Blocks in use on that worker with this request, and all it has. */
  readonly decodeBlocks: number | null;
  readonly totalKvBlocks: number | null;
  readonly prefill: PrefillFacts;
}

/** The prefill worker that would be chosen. */
export type PrefillFacts =
  | {
      readonly kind: 'chosen';
      readonly activeTokens: number;
      readonly maxNumBatchedTokens: number | null;
    }
  /** All are too busy to be chosen. */
  | { readonly kind: 'overloaded' }
  | { readonly kind: 'unknown' };

/** Why a prompt stays with its decode worker. */
export type BypassReason = 'short' | 'prefill_busy';

/** Decides; null = it goes to a prefill worker. */
export function bypassReason(rules: ConditionalDisaggregation, facts: BypassFacts): BypassReason | null {
  if (!decodeWorkerMay(rules, facts)) return null;
  if (rules.policy !== 'prefill_load' && isShort(rules, facts)) return 'short';
  if (rules.policy !== 'isl_bounding' && isPrefillBusy(rules, facts)) return 'prefill_busy';
  return null;
}

/** Both bounds are strict; a prompt without tokens is short. */
function isShort(rules: ConditionalDisaggregation, { cachedTokens, promptTokens }: BypassFacts): boolean {
  const effective = Math.max(0, promptTokens - cachedTokens);
  return effective < rules.effectiveIsl && effective / Math.max(promptTokens, 1) < rules.effectiveIslRatio;
}

function isPrefillBusy(
  { prefillBusyThreshold }: ConditionalDisaggregation,
  { prefill }: BypassFacts,
): boolean {
  if (prefill.kind === 'overloaded') return true;
  if (prefill.kind === 'unknown' || prefillBusyThreshold === null) return false;
  const { activeTokens, maxNumBatchedTokens } = prefill;
  return maxNumBatchedTokens !== null && activeTokens > prefillBusyThreshold * maxNumBatchedTokens;
}

/** The guard: where a threshold is set, the load must be known and within it. */
function decodeWorkerMay(
  { decodeBusyThreshold }: ConditionalDisaggregation,
  { decodeBlocks, totalKvBlocks }: BypassFacts,
): boolean {
  if (decodeBusyThreshold === null) return true;
  return (
    decodeBlocks !== null && totalKvBlocks !== null && decodeBlocks <= decodeBusyThreshold * totalKvBlocks
  );
}
