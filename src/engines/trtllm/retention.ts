// `kv.retain@1.1`, token ranges of a request, in the words of TensorRT-LLM's KvCacheRetentionConfig: ranges of the prompt, and one
// priority for what is generated. Priorities go from 0 to 100 on both sides.
import type { HintJson, KvHintAction } from '../../plugin/index.ts';

/** Members of a KvCacheRetentionConfig as JSON. */
export interface RetentionConfig {
  readonly token_range_retention_configs: readonly {
    readonly token_start: number;
    /** Null = the end of the prompt. */
    readonly token_end: number | null;
    readonly priority: number;
    /** Null = no end. */
    readonly duration_ms: number | null;
  }[];
  /** TensorRT-LLM's default where the output is not meant. */
  readonly decode_retention_priority: number;
  readonly decode_duration_ms: number | null;
}

/** TensorRT-LLM's own default of a block's priority. */
const DEFAULT_PRIORITY = 35;

/** The retention that one action asks for; null = it is another action, or says what has no words there. */
export function retentionOf(action: KvHintAction): RetentionConfig | null {
  if (action.action_type !== 'kv.retain' || action.action_version !== '1.1') return null;
  const { directives } = action.payload;
  if (!Array.isArray(directives)) return null;
  const ranges: RetentionConfig['token_range_retention_configs'][number][] = [];
  let output: { readonly priority: number; readonly duration: number | null } | null = null;
  for (const directive of directives as readonly HintJson[]) {
    const read = readDirective(directive);
    if (read === null) return null;
    const { duration, end, priority, start } = read;
    if (start !== null) {
      ranges.push({ token_start: start, token_end: end, priority, duration_ms: duration });
    }
    // A range without an end goes on into what is generated; a directive of its own for that comes last and wins.
    if (start === null || (end === null && output === null)) output = { priority, duration };
  }
  return {
    token_range_retention_configs: ranges,
    decode_retention_priority: output?.priority ?? DEFAULT_PRIORITY,
    decode_duration_ms: output?.duration ?? null,
  };
}

interface Directive {
  /** Null = what is generated. */
  readonly start: number | null;
  readonly end: number | null;
  readonly priority: number;
  /** ms; null = no end. */
  readonly duration: number | null;
}

function readDirective(directive: HintJson): Directive | null {
  if (!isFields(directive)) return null;
  const { covers_output: output = false, duration = null, end = null, priority, start = 0 } = directive;
  if (typeof priority !== 'number' || (duration !== null && typeof duration !== 'number')) return null;
  if (typeof start !== 'number' || (end !== null && typeof end !== 'number')) return null;
  const ms = duration === null ? null : Math.ceil(1000 * duration);
  return output === true
    ? { start: null, end: null, priority, duration: ms }
    : { start, end, priority, duration: ms };
}

function isFields(value: HintJson): value is { readonly [key: string]: HintJson } {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value);
}
