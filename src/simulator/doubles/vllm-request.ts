// Reads a request as vLLM's server does: what it checks is checked and refused in its words, what it does not know is ignored.
import type { TextTokenizer } from '../../tokens/index.ts';
import { DoubleRefusal, type DoubleRequest, jsonBody } from './double-server.ts';
import { refused, vllmError } from './vllm-errors.ts';
import type { VllmServe } from './vllm-serve.ts';

/** Which API was called. */
export type VllmApi = 'chat' | 'completions';

/** A request that is taken. */
export interface VllmRequest {
  readonly api: VllmApi;
  readonly model: string;
  readonly tokens: Uint32Array;
  readonly maxTokens: number;
  /** The client gave no limit, so that the answer ends by itself. */
  readonly openEnded: boolean;
  readonly n: number;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly continuousUsage: boolean;
  readonly returnTokenIds: boolean;
  readonly sessionId: string | null;
  readonly cacheSalt: string | null;
  readonly priority: number;
  /** Null or an object; anything else is refused. */
  readonly kvTransferParams: JsonObject | null;
}

/** A JSON object of unknown members. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** Output tokens of an answer that ends by itself. */
const OPEN_ENDED_TOKENS = 16;
const DEFAULT_MAX_TOKENS = 16;
const MAX_CACHE_SALT = 1024;

/** The body as an object. @throws DoubleRefusal */
export function readObject(request: DoubleRequest): JsonObject {
  if (!/^application\/json\b/.test(request.headers['content-type'] ?? ''))
    throw refused("Unsupported Media Type: Only 'application/json' is allowed");
  const body = jsonBody(request);
  if (body === undefined) throw refused('[{"type":"json_invalid","loc":["body"],"msg":"JSON decode error"}]');
  if (!isObject(body)) throw refused('Input should be a valid dictionary or object to extract fields from');
  return body;
}

/** Checks a body. @throws DoubleRefusal */
export function readVllmRequest(
  body: JsonObject,
  api: VllmApi,
  serve: VllmServe,
  tokenizer: TextTokenizer,
): VllmRequest {
  const model = checkModel(body, serve);
  const stream = flag(body, 'stream');
  const options = body.stream_options ?? null;
  if (options !== null && !stream) throw refused('Stream options can only be defined when `stream=True`.');
  const n = readN(body);
  const cacheSalt = readCacheSalt(body);
  const priority = integer(body, 'priority') ?? 0;
  if (priority !== 0 && !serve.priorities)
    throw refused(`Got priority ${priority} but Priority scheduling is not enabled.`);
  const tokens = api === 'chat' ? chatTokens(body, tokenizer) : promptTokens(body, tokenizer);
  if (tokens.length === 0) throw refused('The decoder prompt cannot be empty', 'prompt');
  return {
    ...{ api, model, tokens, n, stream, cacheSalt, priority },
    ...readLimit(body, api, tokens.length, serve.maxModelLen),
    includeUsage: isObject(options) && options.include_usage === true,
    continuousUsage: isObject(options) && options.continuous_usage_stats === true,
    returnTokenIds: flag(body, 'return_token_ids'),
    sessionId: text(body, 'session_id'),
    kvTransferParams: readParams(body),
  };
}

/** The name under which a body asks. @throws DoubleRefusal 404 for one that is not served. */
export function checkModel(body: JsonObject, { adapters, models }: VllmServe): string {
  const asked = text(body, 'model') ?? models[0] ?? '';
  if (models.includes(asked) || adapters.includes(asked)) return asked;
  throw new DoubleRefusal(
    404,
    vllmError(404, `The model \`${asked.slice(0, 200)}\` does not exist.`, 'model'),
  );
}

/** Token ids of a chat. @throws DoubleRefusal, PointsmanError of the tokenizer. */
export function chatTokens(body: JsonObject, tokenizer: TextTokenizer): Uint32Array {
  const adds = body.add_generation_prompt !== false;
  if (body.continue_final_message === true && adds) {
    throw refused('Cannot set both `continue_final_message` and `add_generation_prompt` to True.');
  }
  const rendered = tokenizer.renderChat(body.messages, {
    addGenerationPrompt: adds,
    tools: body.tools,
    variables: isObject(body.chat_template_kwargs) ? body.chat_template_kwargs : {},
  });
  return tokenizer.encode(rendered, body.add_special_tokens === true);
}

/** Token ids of a completion's prompt. @throws DoubleRefusal, PointsmanError of the tokenizer. */
export function promptTokens(body: JsonObject, tokenizer: TextTokenizer): Uint32Array {
  const { prompt } = body;
  // A list of one prompt is that prompt; batches are not played.
  const one: unknown = Array.isArray(prompt) && prompt.length === 1 && !isId(prompt[0]) ? prompt[0] : prompt;
  if (typeof one === 'string') return tokenizer.encode(one, body.add_special_tokens !== false);
  if (!Array.isArray(one))
    throw refused('Either prompt or prompt_embeds must be provided and non-empty.', 'prompt');
  const ids = new Uint32Array(one.length);
  one.forEach((id: unknown, at) => {
    if (!isId(id))
      throw refused('prompt must be a string, a list of strings, of token ids or of lists of them', 'prompt');
    if (id >= tokenizer.size) throw refused(`Token id ${id} is out of vocabulary`, 'prompt');
    ids[at] = id;
  });
  return ids;
}

function readLimit(
  body: JsonObject,
  api: VllmApi,
  promptLength: number,
  maxModelLen: number,
): Pick<VllmRequest, 'maxTokens' | 'openEnded'> {
  const given =
    (api === 'chat' ? integer(body, 'max_completion_tokens') : null) ?? integer(body, 'max_tokens');
  if (given !== null && given < 1)
    throw refused(`max_tokens must be at least 1, got ${given}.`, 'max_tokens');
  if (promptLength >= maxModelLen) {
    throw refused(
      `This model's maximum context length is ${maxModelLen} tokens. However, your request has ${promptLength} input tokens. Please reduce the length of the input messages.`,
      'input_tokens',
    );
  }
  const room = maxModelLen - promptLength;
  const wanted = given ?? (api === 'completions' ? DEFAULT_MAX_TOKENS : null);
  if (wanted === null) return { maxTokens: Math.min(OPEN_ENDED_TOKENS, room), openEnded: true };
  if (given !== null && given > room) {
    throw refused(
      `'max_tokens' or 'max_completion_tokens' is too large: ${given}. This model's maximum context length is ${maxModelLen} tokens and your request has ${promptLength} input tokens (${given} > ${maxModelLen} - ${promptLength}).`,
      'max_tokens',
    );
  }
  return { maxTokens: Math.min(wanted, room), openEnded: false };
}

function readN(body: JsonObject): number {
  const n = integer(body, 'n') ?? 1;
  if (n < 1) throw refused(`n must be at least 1, got ${n}.`, 'n');
  if (n > 1 && body.temperature === 0)
    throw refused(`n must be 1 when using greedy sampling, got ${n}.`, 'n');
  if (n > 16) throw refused(`n must be at most 16 here, got ${n}.`, 'n');
  return n;
}

function readCacheSalt(body: JsonObject): string | null {
  const salt = body.cache_salt ?? null;
  if (salt === null) return null;
  if (typeof salt !== 'string' || salt === '')
    throw refused("Parameter 'cache_salt' must be a non-empty string if provided.", 'cache_salt');
  if (salt.length > MAX_CACHE_SALT)
    throw refused(`String should have at most ${MAX_CACHE_SALT} characters`, 'cache_salt');
  return salt;
}

function readParams(body: JsonObject): JsonObject | null {
  const params = body.kv_transfer_params ?? null;
  if (params === null || isObject(params)) return params;
  throw refused('Input should be a valid dictionary', 'kv_transfer_params');
}

function flag(body: JsonObject, name: string): boolean {
  const value = body[name] ?? false;
  if (typeof value === 'boolean') return value;
  throw refused('Input should be a valid boolean', name);
}

function integer(body: JsonObject, name: string): number | null {
  const value = body[name] ?? null;
  if (value === null || (typeof value === 'number' && Number.isInteger(value))) return value;
  throw refused('Input should be a valid integer', name);
}

/** A text member; null = absent. @throws DoubleRefusal */
export function text(body: JsonObject, name: string): string | null {
  const value = body[name] ?? null;
  if (value === null || typeof value === 'string') return value;
  throw refused('Input should be a valid string', name);
}

function isId(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 0xffffffff;
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
