// Reads the body of a completion or chat request as vLLM's server does, as far as the simulated engine acts on it; every other
// field is accepted and ignored.
import { PointsmanError } from '../../plugin/index.ts';
import type { TextTokenizer } from '../../tokens/index.ts';
import type { HandoffFields } from '../handoff-fields.ts';

/** Prompt and answer together, in tokens. */
export const MAX_MODEL_LEN = 131_072;

/** Output tokens when the request does not say; vLLM's default for completions. */
export const DEFAULT_MAX_TOKENS = 16;

const MAX_SESSION_ID = 1024;
const MAX_CACHE_SALT = 1024;

/** Which API was called. */
export type SimApi = 'chat' | 'completions';

/** A request, checked. */
export interface CompletionRequest {
  readonly api: SimApi;
  readonly tokens: Uint32Array;
  readonly maxTokens: number;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly sessionId: string | null;
  /** Keeps its blocks apart from those of other salts; null = none. */
  readonly cacheSalt: string | null;
  /** `kv_transfer_params.kv_hint`, unchecked; null = none. */
  readonly hint: unknown;
  /** What it says of handing KV over, unchecked. */
  readonly handoff: HandoffFields;
}

/** A JSON object of unknown members. */
export type JsonObject = Readonly<Record<string, unknown>>;

/**
 * Checks a parsed body.
 * @throws PointsmanError PM_SIM_INVALID or PM_SIM_NOT_FOUND (another model), and the tokenizer's errors.
 */
export function readCompletionRequest(
  body: unknown,
  api: SimApi,
  model: string,
  tokenizer: TextTokenizer,
): CompletionRequest {
  if (!isObject(body)) throw invalid('the body must be a JSON object');
  checkModel(body.model, model);
  if (body.n !== undefined && body.n !== null && body.n !== 1) throw invalid('n must be 1');
  const tokens = api === 'chat' ? chatTokens(body, tokenizer) : promptTokens(body.prompt, tokenizer);
  if (tokens.length === 0) throw invalid('the prompt must hold at least one token');
  const maxTokens = readMaxTokens(body, api);
  if (tokens.length + maxTokens > MAX_MODEL_LEN) {
    throw invalid(
      `the maximum context length is ${MAX_MODEL_LEN} tokens, but ${tokens.length} prompt tokens and ${maxTokens} output tokens were asked for`,
    );
  }
  return {
    api,
    tokens,
    maxTokens,
    stream: readFlag(body.stream, 'stream'),
    includeUsage: isObject(body.stream_options) && body.stream_options.include_usage === true,
    sessionId: readSessionId(body.session_id),
    cacheSalt: readCacheSalt(body.cache_salt),
    hint: isObject(body.kv_transfer_params) ? (body.kv_transfer_params.kv_hint ?? null) : null,
    handoff: {
      kvTransferParams: body.kv_transfer_params,
      bootstrapHost: body.bootstrap_host,
      bootstrapPort: body.bootstrap_port,
      bootstrapRoom: body.bootstrap_room,
      prefillRank: body.disagg_prefill_dp_rank,
    },
  };
}

/** Token ids and the length limit, for `/tokenize`, in both of its shapes. */
export function readTokenizeRequest(body: unknown, model: string, tokenizer: TextTokenizer): Uint32Array {
  if (!isObject(body)) throw invalid('the body must be a JSON object');
  checkModel(body.model, model);
  if (body.messages !== undefined) return chatTokens(body, tokenizer);
  if (typeof body.prompt !== 'string') throw invalid('prompt must be a string, or messages a list');
  return tokenizer.encode(body.prompt, body.add_special_tokens !== false);
}

function checkModel(asked: unknown, model: string): void {
  if (asked === undefined || asked === null || asked === model) return;
  if (typeof asked !== 'string') throw invalid('model must be a string');
  throw new PointsmanError(
    'PM_SIM_NOT_FOUND',
    `the model "${asked.slice(0, 100)}" does not exist; this engine serves "${model}"`,
  );
}

function chatTokens(body: JsonObject, tokenizer: TextTokenizer): Uint32Array {
  const variables = isObject(body.chat_template_kwargs) ? body.chat_template_kwargs : {};
  const text = tokenizer.renderChat(body.messages, {
    addGenerationPrompt: body.add_generation_prompt !== false && body.continue_final_message !== true,
    continueFinalMessage: body.continue_final_message === true,
    tools: body.tools,
    variables,
  });
  return tokenizer.encode(text, body.add_special_tokens === true);
}

function promptTokens(prompt: unknown, tokenizer: TextTokenizer): Uint32Array {
  if (typeof prompt === 'string') return tokenizer.encode(prompt);
  if (!Array.isArray(prompt)) throw invalid('prompt must be a string or a list of token ids');
  const tokens = new Uint32Array(prompt.length);
  prompt.forEach((id: unknown, at) => {
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id > 0xffffffff) {
      throw invalid(`prompt[${at}] must be a token id, an integer from 0 to 4294967295`);
    }
    tokens[at] = id;
  });
  return tokens;
}

function readMaxTokens(body: JsonObject, api: SimApi): number {
  const name =
    api === 'chat' && (body.max_completion_tokens ?? null) !== null ? 'max_completion_tokens' : 'max_tokens';
  const value = body[name];
  if (value === undefined || value === null) return DEFAULT_MAX_TOKENS;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1) {
    throw invalid(`${name} must be an integer of at least 1`);
  }
  return value;
}

function readFlag(value: unknown, name: string): boolean {
  if (value === undefined || value === null) return false;
  if (typeof value !== 'boolean') throw invalid(`${name} must be true or false`);
  return value;
}

function readSessionId(value: unknown): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value !== 'string' || value.length > MAX_SESSION_ID) {
    throw invalid(`session_id must be a string of at most ${MAX_SESSION_ID} characters`);
  }
  return value;
}

function readCacheSalt(value: unknown): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value !== 'string' || value === '' || value.length > MAX_CACHE_SALT) {
    throw invalid(`cache_salt must be a string of 1 to ${MAX_CACHE_SALT} characters`);
  }
  return value;
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function invalid(sentence: string): PointsmanError {
  return new PointsmanError('PM_SIM_INVALID', sentence);
}
