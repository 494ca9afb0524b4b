// When a worker counts as busy: which thresholds a model has, from its own keys and those of `router`.
import { problemsOf } from './issues.ts';
import { renderPath } from './text-source.ts';
import { decimal, isRecord, mapping, orNull, text, whole } from './values.ts';

/** Loads above which a rank counts as busy. Null = not tested by that. */
export interface BusyThresholds {
  /** Blocks in use, as a part of the rank's KV blocks, 0 to 1. */
  readonly activeDecodeBlocks: number | null;
  /** Prompt tokens still to be computed. */
  readonly activePrefillTokens: number | null;
  /** Prompt tokens still to be computed, in multiples of `max_num_batched_tokens`. */
  readonly activePrefillTokensFrac: number | null;
}

/** A model without any. */
export const NO_THRESHOLDS: BusyThresholds = {
  activeDecodeBlocks: null,
  activePrefillTokens: null,
  activePrefillTokensFrac: null,
};

/** The keys, under `router` and under each model; null where left out. */
export const busyThresholdKeys = () => ({
  active_decode_blocks_threshold: orNull(decimal(0, 1)),
  active_prefill_tokens_threshold: orNull(whole(0)),
  active_prefill_tokens_threshold_frac: orNull(decimal(0)),
});

/** Thresholds in the names of the file, as they are checked there. */
export interface WrittenThresholds {
  readonly active_decode_blocks_threshold: number | null;
  readonly active_prefill_tokens_threshold: number | null;
  readonly active_prefill_tokens_threshold_frac: number | null;
}

/** From the file's names to the program's. */
export function buildThresholds(file: WrittenThresholds): BusyThresholds {
  return {
    activeDecodeBlocks: file.active_decode_blocks_threshold,
    activePrefillTokens: file.active_prefill_tokens_threshold,
    activePrefillTokensFrac: file.active_prefill_tokens_threshold_frac,
  };
}

/** And back. */
export function writtenThresholds(thresholds: BusyThresholds): WrittenThresholds {
  return {
    active_decode_blocks_threshold: thresholds.activeDecodeBlocks,
    active_prefill_tokens_threshold: thresholds.activePrefillTokens,
    active_prefill_tokens_threshold_frac: thresholds.activePrefillTokensFrac,
  };
}

/** What is in force for a model: each key of its own, else the one of `router`. */
export function thresholdsOf(
  config: {
    readonly router: { readonly busyThresholds: BusyThresholds };
    readonly models: ReadonlyMap<string, { readonly busyThresholds?: BusyThresholds | null }>;
  },
  model: string,
): BusyThresholds {
  const everywhere = config.router.busyThresholds;
  const own = config.models.get(model)?.busyThresholds ?? NO_THRESHOLDS;
  return {
    activeDecodeBlocks: own.activeDecodeBlocks ?? everywhere.activeDecodeBlocks,
    activePrefillTokens: own.activePrefillTokens ?? everywhere.activePrefillTokens,
    activePrefillTokensFrac: own.activePrefillTokensFrac ?? everywhere.activePrefillTokensFrac,
  };
}

/** Whether nothing is tested. */
export function testsNothing(thresholds: BusyThresholds): boolean {
  return (
    thresholds.activeDecodeBlocks === null &&
    thresholds.activePrefillTokens === null &&
    thresholds.activePrefillTokensFrac === null
  );
}

/** Thresholds of one model as somebody asks for them. */
export interface ThresholdChange {
  readonly model: string;
  /** Those that change; null = no longer tested. */
  readonly changes: Partial<BusyThresholds>;
}

const changeSchema = mapping({ model: text("a model's name"), ...busyThresholdKeys() });

/** Reads a change from JSON; or what is wrong with it, one sentence for each field. A key that is left out changes nothing. */
export function readThresholdChange(
  body: unknown,
): ThresholdChange | { readonly problems: readonly string[] } {
  const parsed = changeSchema.safeParse(body);
  if (!parsed.success) {
    const problems = parsed.error.issues.flatMap(problemsOf);
    return {
      problems: problems.map(({ path, message }) =>
        path.length === 0 ? message : `${renderPath(path)}: ${message}`,
      ),
    };
  }
  const { model, ...written } = parsed.data;
  const all = buildThresholds(written);
  const named = (key: string): boolean => isRecord(body) && Object.hasOwn(body, key);
  return {
    model,
    changes: {
      ...(named('active_decode_blocks_threshold') && { activeDecodeBlocks: all.activeDecodeBlocks }),
      ...(named('active_prefill_tokens_threshold') && { activePrefillTokens: all.activePrefillTokens }),
      ...(named('active_prefill_tokens_threshold_frac') && {
        activePrefillTokensFrac: all.activePrefillTokensFrac,
      }),
    },
  };
}
