// Keys of disaggregated serving: those of `router`, in the Rust router's names, and how a worker hands KV over.

import type { WorkerConfig } from './fleet-types.ts';
import type { FileValue } from './schema.ts';
import { decimal, flag, or, orNull, whole, word } from './values.ts';

/** When a request is not sent to a prefill worker, although there is one. */
export interface ConditionalDisaggregation {
  readonly policy: 'isl_bounding' | 'prefill_load' | 'isl_or_load';
  /** Prompts with fewer tokens to compute stay, if the ratio agrees. */
  readonly effectiveIsl: number;
  /** Of tokens to compute to those of the prompt. */
  readonly effectiveIslRatio: number;
  /** Share of max_num_batched_tokens from which a prefill worker is busy; null = nothing says so. */
  readonly prefillBusyThreshold: number | null;
  /** Share of total_kv_blocks up to which a decode worker may compute a prompt as well; null = it always may. */
  readonly decodeBusyThreshold: number | null;
}

/** How requests are served where prompts are computed by other workers than those that decode. */
export interface DisaggregationSettings {
  /** Decode workers compute prompts themselves while no prefill worker can. */
  readonly decodeFallback: boolean;
  /** Null = every prompt goes to a prefill worker. */
  readonly conditional: ConditionalDisaggregation | null;
}

/** Port on which SGLang's prefill engines wait for the others unless told otherwise (SGLANG_BOOTSTRAP_PORT). */
const BOOTSTRAP_PORT = 8998;

/** `router` keys. */
export const disaggregationKeys = () => ({
  decode_fallback: or(flag(), false),
  conditional_disagg: or(flag(), false),
  conditional_disagg_policy: or(word(['isl_bounding', 'prefill_load', 'isl_or_load']), 'isl_bounding'),
  conditional_disagg_effective_isl: or(whole(0), 2048),
  conditional_disagg_effective_isl_ratio: or(decimal(0, 1), 0.7),
  conditional_disagg_prefill_busy_threshold: orNull(decimal(0)),
  conditional_disagg_decode_busy_threshold: orNull(decimal(0, 1)),
});

/** The settings in a checked file. */
export function buildDisaggregation(router: FileValue['router']): DisaggregationSettings {
  return {
    decodeFallback: router.decode_fallback,
    conditional: router.conditional_disagg
      ? {
          policy: router.conditional_disagg_policy,
          effectiveIsl: router.conditional_disagg_effective_isl,
          effectiveIslRatio: router.conditional_disagg_effective_isl_ratio,
          prefillBusyThreshold: router.conditional_disagg_prefill_busy_threshold,
          decodeBusyThreshold: router.conditional_disagg_decode_busy_threshold,
        }
      : null,
  };
}

/** How a worker hands KV over; without an address of its own it waits where it is served. */
export function buildHandoff({
  handoff,
  url,
}: FileValue['workers'][number]): NonNullable<WorkerConfig['handoff']> | null {
  if (handoff === null) return null;
  const { engine_id: engineId, kind, pp_size: ppSize, tp_size: tpSize } = handoff;
  const host = handoff.host ?? new URL(url ?? 'http://127.0.0.1').hostname;
  const port = handoff.port ?? BOOTSTRAP_PORT;
  return { kind, address: kind === 'nixl' ? null : { host, port }, engineId, tpSize, ppSize };
}
