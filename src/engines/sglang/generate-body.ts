// A completion in the words of SGLang's `/generate`, the endpoint that takes KV hints. Names of sampling parameters: SGLang's own
// documentation of them; what has none there keeps the request on the OpenAI endpoint.
import { isJsonObject } from '../json-value.ts';

/** Members of a completion request by their name among SGLang's sampling parameters. */
const SAMPLING: ReadonlyMap<string, string> = new Map([
  ['max_tokens', 'max_new_tokens'],
  ['min_tokens', 'min_new_tokens'],
  ['seed', 'sampling_seed'],
  ...[
    'temperature',
    'top_p',
    'top_k',
    'min_p',
    'frequency_penalty',
    'presence_penalty',
    'repetition_penalty',
    'stop',
    'stop_token_ids',
    'stop_regex',
    'ignore_eos',
    'skip_special_tokens',
    'no_stop_trim',
    'json_schema',
    'regex',
    'ebnf',
    'logit_bias',
    'custom_params',
  ].map((name) => [name, name] as const),
]);

/** Members that both endpoints take under one name. */
const SHARED: readonly string[] = [
  'lora_path',
  'session_params',
  'custom_logit_processor',
  'extra_key',
  'cache_salt',
  'custom_labels',
  'priority',
];

/** Members that ask for what an answer has anyway when they hold this. */
const WITHOUT_EFFECT: ReadonlyMap<string, readonly unknown[]> = new Map<string, readonly unknown[]>([
  ['n', [1]],
  ['best_of', [1]],
  ['echo', [false]],
  ['logprobs', [false]],
  ['suffix', ['']],
  ['return_hidden_states', [false]],
  ['return_routed_experts', [false]],
  ['return_cached_tokens_details', [false]],
  ['return_token_ids', [false]],
]);

/** Members that the router writes itself, or that say nothing to an engine. */
const WRITTEN: ReadonlySet<string> = new Set([
  'model',
  'prompt',
  'stream',
  'stream_options',
  'user',
  'request_id',
  'rid',
]);

/** Whether `/generate` can serve a completion request as its client asked for it. */
export function fitsGenerate(body: Readonly<Record<string, unknown>>): boolean {
  for (const [name, value] of Object.entries(body)) {
    if (value === null || value === undefined || WRITTEN.has(name)) continue;
    if (SAMPLING.has(name) || SHARED.includes(name)) continue;
    if (WITHOUT_EFFECT.get(name)?.includes(value) === true) continue;
    return false;
  }
  return true;
}

/** The members of a `/generate` body that come from the client, without the prompt. @param maxTokens where it gives no limit. */
export function generateFields(
  body: Readonly<Record<string, unknown>>,
  maxTokens: number,
): Record<string, unknown> {
  const sampling: Record<string, unknown> = {};
  for (const [name, theirs] of SAMPLING) {
    const value = body[name] ?? null;
    if (value !== null) sampling[theirs] = value;
  }
  if (typeof sampling.max_new_tokens !== 'number') sampling.max_new_tokens = maxTokens;
  const fields: Record<string, unknown> = { sampling_params: sampling };
  for (const name of SHARED) {
    const value = body[name] ?? null;
    if (value !== null) fields[name] = value;
  }
  return fields;
}

/** What the client asked to see of the usage of its stream. */
export function usageAsked(body: Readonly<Record<string, unknown>> | null): {
  readonly atEnd: boolean;
  readonly always: boolean;
} {
  const options = isJsonObject(body?.stream_options) ? body.stream_options : {};
  const atEnd = options.include_usage === true;
  return { atEnd, always: atEnd && options.continuous_usage_stats === true };
}
