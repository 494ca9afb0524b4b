// Reads requests as SGLang's server does: what it refuses is refused in its words, what it does not know is ignored.
import type { TextTokenizer } from '../../../tokens/index.ts';
import type { HandoffFields } from '../../handoff-fields.ts';
import { DoubleRefusal } from '../double-server.ts';
import { type HintField, readHint } from './sglang-hint.ts';

/** Which endpoint was called; the two OpenAI ones tell errors in another shape. */
export type SglangApi = 'generate' | 'completions' | 'chat';

/** A request, checked. */
export interface SglangRequest {
  readonly api: SglangApi;
  readonly tokens: Uint32Array;
  readonly maxTokens: number;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  /** Its answer names the ids of the prompt. */
  readonly tellsPromptIds: boolean;
  /** Null = the server makes one. */
  readonly rid: string | null;
  /** Null = the server chooses. */
  readonly rank: number | null;
  readonly sessionId: string | null;
  /** Salt and extra key together; null = neither. */
  readonly cacheSalt: string | null;
  readonly priority: number | null;
  /** An envelope of one action for the engine; null = there is no usable one. */
  readonly hint: unknown;
  readonly handoff: HandoffFields;
}

/** What the server reads with. */
export interface SglangReader {
  readonly tokenizer: TextTokenizer;
  readonly ranks: number;
  /** Tokens of prompt and output together. */
  readonly contextLength: number;
  /** Where it takes hints; null = nowhere. */
  readonly hintField: HintField | null;
  /** It runs with --enable-priority-scheduling. */
  readonly priorities: boolean;
  /** It runs with --abort-on-priority-when-disabled. */
  readonly refusesPriorities: boolean;
}

type Fields = Readonly<Record<string, unknown>>;

const MAX_TEXT = 1024;

/** @param pin header `x-data-parallel-rank`. @throws DoubleRefusal */
export function readSglangRequest(
  api: SglangApi,
  body: unknown,
  pin: string | undefined,
  reader: SglangReader,
): SglangRequest {
  if (!isObject(body))
    throw refusal(api, 'Input should be a valid dictionary or object to extract fields from');
  const refuse = (sentence: string): DoubleRefusal => refusal(api, sentence);
  const tokens = promptOf(api, body, reader.tokenizer, refuse);
  const parameters = api === 'generate' ? objectOr(body.sampling_params) : body;
  const maxTokens = readMaxTokens(api, parameters, refuse);
  if (tokens.length >= reader.contextLength) {
    throw refuse(
      `The input (${tokens.length} tokens) is longer than the model's context length (${reader.contextLength} tokens).`,
    );
  }
  if (tokens.length + maxTokens > reader.contextLength) {
    throw refuse(
      `Requested token count exceeds the model's maximum context length of ${reader.contextLength} tokens. You requested a total of ${tokens.length + maxTokens} tokens: ${tokens.length} tokens from the input messages and ${maxTokens} tokens for the completion.`,
    );
  }
  if (parameters.n !== undefined && parameters.n !== null && parameters.n !== 1) throw refuse('n must be 1');
  const sessionId = textOr(body.session_id, 'session_id', refuse);
  if (sessionId !== null && (body.session_params ?? null) !== null) {
    throw refuse('session_id and session_params cannot be specified together.');
  }
  const tellsPromptIds = api === 'chat' && body.return_prompt_token_ids === true;
  if (tellsPromptIds && body.stream === true) {
    throw refuse(
      'return_prompt_token_ids is not supported with streaming. Please set stream=false when using return_prompt_token_ids=true.',
    );
  }
  const priority = typeof body.priority === 'number' ? body.priority : null;
  if (priority !== null && !reader.priorities && reader.refusesPriorities) {
    throw refuse('Using priority is disabled for this server. Please send a new request without a priority.');
  }
  const salt = [body.cache_salt, body.extra_key].map((value) => textOr(value, 'cache_salt', refuse) ?? '');
  return {
    api,
    tokens,
    maxTokens,
    stream: body.stream === true,
    tellsPromptIds,
    includeUsage: objectOr(body.stream_options).include_usage === true,
    rid: textOr(body.rid, 'rid', refuse),
    rank: rankOf(body, pin, reader.ranks, refuse),
    sessionId,
    cacheSalt: salt[1] === '' ? salt[0] || null : salt.join('\n'),
    priority,
    // Only the native endpoint has the field; the others ignore a member of that name.
    hint: api === 'generate' && reader.hintField !== null ? readHint(body, reader.hintField) : null,
    handoff: {
      kvTransferParams: null,
      bootstrapHost: body.bootstrap_host,
      bootstrapPort: body.bootstrap_port,
      bootstrapRoom: body.bootstrap_room,
      prefillRank: body.disagg_prefill_dp_rank,
    },
  };
}

/** A refusal with status 400 in the shape of an endpoint. */
export function refusal(api: SglangApi, sentence: string): DoubleRefusal {
  return new DoubleRefusal(
    400,
    api === 'generate'
      ? { error: { message: sentence } }
      : { object: 'error', message: sentence, type: 'BadRequest', param: null, code: 400 },
  );
}

/** Token ids for `/tokenize`. @throws DoubleRefusal */
export function readTokenize(body: unknown, tokenizer: TextTokenizer): Uint32Array {
  if (!isObject(body) || typeof body.prompt !== 'string')
    throw refusal('completions', 'prompt must be a string');
  return tokenizer.encode(body.prompt, body.add_special_tokens !== false);
}

type Refuse = (sentence: string) => DoubleRefusal;

function promptOf(api: SglangApi, body: Fields, tokenizer: TextTokenizer, refuse: Refuse): Uint32Array {
  if (api === 'chat') {
    const text = tokenizer.renderChat(body.messages, {
      addGenerationPrompt: true,
      tools: body.tools,
      variables: objectOr(body.chat_template_kwargs),
    });
    return tokenizer.encode(text, false);
  }
  if (api === 'completions') {
    if (typeof body.prompt === 'string' && body.prompt !== '') return tokenizer.encode(body.prompt);
    if (Array.isArray(body.prompt) && body.prompt.length > 0) return idsOf(body.prompt, refuse);
    throw refuse('Prompt cannot be empty');
  }
  const text = body.text ?? null;
  const ids = body.input_ids ?? null;
  if ((text === null) === (ids === null)) {
    throw refuse('Either text, input_ids or input_embeds should be provided.');
  }
  if (typeof text === 'string') return tokenizer.encode(text);
  if (!Array.isArray(ids) || ids.length === 0) throw refuse('input_ids cannot be empty.');
  return idsOf(ids, refuse);
}

function idsOf(list: readonly unknown[], refuse: Refuse): Uint32Array {
  const tokens = new Uint32Array(list.length);
  for (const [at, id] of list.entries()) {
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id > 0xffffffff) {
      throw refuse(`the token id at ${at} is no number of a token`);
    }
    tokens[at] = id;
  }
  return tokens;
}

function readMaxTokens(api: SglangApi, parameters: Fields, refuse: Refuse): number {
  const {
    max_completion_tokens: ofChat = null,
    max_new_tokens: native = null,
    max_tokens: openai = null,
  } = parameters;
  const value = api === 'generate' ? (native ?? 128) : ((api === 'chat' ? ofChat : null) ?? openai ?? 16);
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1) {
    throw refuse(`max_new_tokens must be at least 1, got ${JSON.stringify(value)}.`);
  }
  return value;
}

/** The header wins over the body, and the newer member over the older one. */
function rankOf(body: Fields, pin: string | undefined, ranks: number, refuse: Refuse): number | null {
  if (pin !== undefined && !/^-?\d+$/.test(pin)) {
    throw new DoubleRefusal(400, {
      detail: `Invalid X-Data-Parallel-Rank header: must be an integer, got '${pin}'`,
    });
  }
  const named = body.routed_dp_rank ?? body.data_parallel_rank ?? null;
  const rank = pin === undefined ? named : Number(pin);
  if (rank === null) return null;
  if (typeof rank !== 'number' || !Number.isInteger(rank) || rank < 0 || rank >= ranks) {
    throw refuse(`routed_dp_rank=${JSON.stringify(rank)} out of range [0, ${ranks})`);
  }
  return rank;
}

function textOr(value: unknown, name: string, refuse: Refuse): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value === 'string' && value.length <= MAX_TEXT) return value;
  throw refuse(`${name} must be a string of at most ${MAX_TEXT} characters`);
}

function objectOr(value: unknown): Fields {
  return isObject(value) ? value : {};
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
