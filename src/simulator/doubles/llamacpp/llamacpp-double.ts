// A llama.cpp server as seen over HTTP, without a model: slots, endpoints, refusals and answers of tools/server, tokens of the tiny
// tokenizer. It ignores every field that the server does not know, hints and sessions among them.
import type { ServerResponse } from 'node:http';
import type { Clock } from '../../../plugin/index.ts';
import type { TextTokenizer } from '../../../tokens/index.ts';
import { drain, listen } from '../../wire/listening.ts';
import {
  answerJson,
  answerText,
  createDoubleServer,
  type DoubleFailure,
  DoubleRefusal,
  type DoubleRequest,
  jsonBody,
} from '../double-server.ts';
import { outputToken, type SlotState, Slots } from './slots.ts';

/** How the server was started. */
export interface LlamaServerOptions {
  /** `--alias`. */
  readonly alias: string;
  /** `--parallel`. */
  readonly slots: number;
  /** Tokens of one slot: `--ctx-size` over `--parallel`. */
  readonly slotContext: number;
  /** `--metrics`. */
  readonly metrics: boolean;
  /** `--no-slots` = false. */
  readonly showsSlots: boolean;
  /** `usage.prompt_tokens_details`, which older builds do not have. */
  readonly detailsUsage: boolean;
  /** Time of one output token. */
  readonly tokenMs: number;
  readonly tokenizer: TextTokenizer;
  readonly clock: Clock;
}

/** A running double. */
export interface LlamaServerDouble {
  readonly url: string;
  requests(): readonly DoubleRequest[];
  slots(): readonly SlotState[];
  close(): Promise<void>;
}

const MAX_BODY = 16 * 1024 * 1024;
/** Where nothing is said an answer is as long as the context allows; the double ends it here. */
const LONGEST_ANSWER = 256;

type Fields = Readonly<Record<string, unknown>>;

/** Starts a double on a free loopback port. */
export async function startLlamaServer(options: LlamaServerOptions, port = 0): Promise<LlamaServerDouble> {
  const slots = new Slots(options.slots, options.clock, options.tokenMs);
  const { requests, server } = createDoubleServer({
    maxBodyBytes: MAX_BODY,
    refusalOf,
    routes: {
      'GET /health': (_, response) => answerJson(response, 200, { status: 'ok' }),
      'GET /v1/health': (_, response) => answerJson(response, 200, { status: 'ok' }),
      'GET /props': (_, response) => answerJson(response, 200, propsOf(options)),
      'GET /slots': ({ query }, response) => answerSlots(options, slots, query, response),
      'GET /metrics': (_, response) => answerMetrics(options, slots, response),
      'GET /v1/models': (_, response) => answerJson(response, 200, modelsOf(options)),
      'POST /tokenize': (request, response) => {
        const { add_special: special, content } = fieldsOf(request);
        const tokens = [...options.tokenizer.encode(String(content ?? ''), special === true)];
        answerJson(response, 200, { tokens });
      },
      'POST /apply-template': (request, response) =>
        answerJson(response, 200, { prompt: rendered(options, fieldsOf(request)) }),
      'POST /v1/completions': (request, response) =>
        generate(options, slots, 'completions', request, response),
      'POST /v1/chat/completions': (request, response) => generate(options, slots, 'chat', request, response),
    },
  });
  await listen(server, port);
  const address = server.address();
  const bound = typeof address === 'object' && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${bound}`,
    requests,
    slots: () => slots.states(),
    close: () => drain(server, options.clock, 0),
  };
}

function generate(
  options: LlamaServerOptions,
  slots: Slots,
  api: 'chat' | 'completions',
  request: DoubleRequest,
  response: ServerResponse,
): void {
  const fields = fieldsOf(request);
  const tokens =
    api === 'chat' ? encoded(options, rendered(options, fields)) : promptOf(options, fields.prompt);
  if (tokens.length >= options.slotContext) {
    const sentence = `the request exceeds the available context size (${options.slotContext} tokens), try increasing it`;
    const counts = { n_prompt_tokens: tokens.length, n_ctx: options.slotContext };
    throw refusal(400, sentence, 'exceed_context_size_error', counts);
  }
  const limit = numberOf(
    fields.max_completion_tokens ?? fields.max_tokens ?? fields.n_predict,
    LONGEST_ANSWER,
  );
  const answer = new LlamaAnswer(options, api, fields, tokens.length, response);
  const abort = slots.submit({
    tokens,
    outputTokens: Math.min(limit < 0 ? LONGEST_ANSWER : limit, options.slotContext - tokens.length),
    idSlot: numberOf(fields.id_slot, -1),
    usesCache: fields.cache_prompt !== false,
    started: (_slot, cachedTokens) => answer.started(cachedTokens),
    token: (index) => answer.token(index),
    finished: () => answer.finished(),
  });
  response.on('close', abort);
}

/** One answer of its OpenAI endpoints. */
class LlamaAnswer {
  readonly #options: LlamaServerOptions;
  readonly #isChat: boolean;
  readonly #fields: Fields;
  readonly #promptTokens: number;
  readonly #response: ServerResponse;
  #cached = 0;
  #count = 0;
  #text = '';

  constructor(
    options: LlamaServerOptions,
    api: 'chat' | 'completions',
    fields: Fields,
    promptTokens: number,
    response: ServerResponse,
  ) {
    this.#options = options;
    this.#isChat = api === 'chat';
    this.#fields = fields;
    this.#promptTokens = promptTokens;
    this.#response = response;
  }

  started(cachedTokens: number): void {
    this.#cached = cachedTokens;
    if (this.#fields.stream !== true) return;
    this.#response.writeHead(200, { 'content-type': 'text/event-stream' });
    if (this.#isChat) this.#event([this.#choice({ delta: { role: 'assistant', content: null } }, null)]);
  }

  token(index: number): void {
    const text = this.#options.tokenizer.decode([outputToken(index)]);
    this.#count += 1;
    this.#text += text;
    if (this.#fields.stream !== true) return;
    this.#event([this.#choice(this.#isChat ? { delta: { content: text } } : { text }, null)]);
  }

  finished(): void {
    const timings = this.#timings();
    if (this.#fields.stream !== true) {
      const content = this.#isChat
        ? { message: { role: 'assistant', content: this.#text } }
        : { text: this.#text };
      const kind = this.#isChat ? 'chat.completion' : 'text_completion';
      const choices = [this.#choice(content, 'length')];
      answerJson(this.#response, 200, { ...this.#object(kind, choices), usage: this.#usage(), timings });
      return;
    }
    const wantsUsage =
      isFields(this.#fields.stream_options) && this.#fields.stream_options.include_usage === true;
    const last = this.#choice(this.#isChat ? { delta: {} } : { text: '' }, 'length');
    this.#event([last], wantsUsage ? {} : { timings });
    if (wantsUsage) this.#event([], { usage: this.#usage(), timings });
    this.#response.end('data: [DONE]\n\n');
  }

  #choice(content: object, finishReason: string | null): object {
    return { finish_reason: finishReason, index: 0, ...content };
  }

  #event(choices: readonly object[], more: object = {}): void {
    const kind = this.#isChat ? 'chat.completion.chunk' : 'text_completion';
    this.#response.write(`data: ${JSON.stringify({ ...this.#object(kind, choices), ...more })}\n\n`);
  }

  #object(object: string, choices: readonly object[]): object {
    const { alias, clock } = this.#options;
    const created = Math.floor(clock.now() / 1000);
    return { choices, created, id: 'chatcmpl-double', model: alias, object, system_fingerprint: BUILD };
  }

  #usage(): object {
    return {
      completion_tokens: this.#count,
      prompt_tokens: this.#promptTokens,
      total_tokens: this.#promptTokens + this.#count,
      ...(this.#options.detailsUsage && { prompt_tokens_details: { cached_tokens: this.#cached } }),
    };
  }

  #timings(): object {
    return { cache_n: this.#cached, prompt_n: this.#promptTokens - this.#cached, predicted_n: this.#count };
  }
}

const BUILD = 'b6000-double';

function propsOf({ alias, slotContext, slots }: LlamaServerOptions): object {
  return {
    default_generation_settings: { id: 0, n_ctx: slotContext, speculative: false, is_processing: false },
    total_slots: slots,
    model_alias: alias,
    model_path: `${alias}.gguf`,
    chat_template: '{{ messages }}',
    build_info: BUILD,
  };
}

function modelsOf({ alias, slotContext }: LlamaServerOptions): object {
  const meta = { n_ctx_train: slotContext };
  return { object: 'list', data: [{ id: alias, object: 'model', created: 0, owned_by: 'llamacpp', meta }] };
}

function answerSlots(
  { showsSlots, slotContext }: LlamaServerOptions,
  slots: Slots,
  query: URLSearchParams,
  response: ServerResponse,
): void {
  if (!showsSlots) throw refusal(501, 'This server does not support slots endpoint.', 'not_supported_error');
  const states = slots.states();
  if (query.get('fail_on_no_slot') === '1' && states.every(({ isProcessing }) => isProcessing))
    throw refusal(503, 'no slot available', 'unavailable_error');
  const shown = states.map(({ decoded, id, isProcessing }) => ({
    ...{ id, n_ctx: slotContext, speculative: false, is_processing: isProcessing },
    next_token: { has_next_token: isProcessing, n_decoded: decoded },
  }));
  answerJson(response, 200, shown);
}

function answerMetrics({ metrics }: LlamaServerOptions, slots: Slots, response: ServerResponse): void {
  if (!metrics) {
    const sentence = 'This server does not support metrics endpoint. Start it with `--metrics`';
    throw refusal(501, sentence, 'not_supported_error');
  }
  const page = [
    `llamacpp:requests_processing ${slots.processing}`,
    `llamacpp:requests_deferred ${slots.deferred}`,
  ];
  answerText(response, 200, 'text/plain; version=0.0.4', `${page.join('\n')}\n`);
}

function promptOf(options: LlamaServerOptions, prompt: unknown): number[] {
  if (typeof prompt === 'string') return encoded(options, prompt);
  const list: readonly unknown[] = Array.isArray(prompt) ? prompt : [];
  const tokens = list.filter((token): token is number => typeof token === 'number');
  if (tokens.length === 0 || tokens.length < list.length)
    throw refusal(
      400,
      '"prompt" must be a string, an list of tokens, a list of mixed strings & tokens',
      'invalid_request_error',
    );
  return tokens;
}

function rendered({ tokenizer }: LlamaServerOptions, { messages }: Fields): string {
  if (!Array.isArray(messages)) throw refusal(400, "'messages' is required", 'invalid_request_error');
  return tokenizer.renderChat(messages, { addGenerationPrompt: true });
}

function encoded({ tokenizer }: LlamaServerOptions, text: string): number[] {
  return [...tokenizer.encode(text, false)];
}

function fieldsOf(request: DoubleRequest): Fields {
  const body = jsonBody(request);
  if (isFields(body)) return body;
  throw refusalOf({ kind: 'not_json' });
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function numberOf(value: unknown, fallback: number): number {
  const number = typeof value === 'bigint' ? Number(value) : value;
  return typeof number === 'number' && Number.isInteger(number) ? number : fallback;
}

function refusal(code: number, message: string, type: string, more: object = {}): DoubleRefusal {
  return new DoubleRefusal(code, { error: { code, message, type, ...more } });
}

function refusalOf(failure: DoubleFailure): DoubleRefusal {
  switch (failure.kind) {
    case 'no_route':
    case 'wrong_method':
      return refusal(404, 'File Not Found', 'not_found_error');
    case 'too_large':
      return refusal(413, 'Payload Too Large', 'invalid_request_error');
    case 'not_json':
      return refusal(500, 'parse error: invalid JSON', 'server_error');
    case 'thrown':
      return refusal(
        500,
        failure.thrown instanceof Error ? failure.thrown.message : 'unknown',
        'server_error',
      );
  }
}
