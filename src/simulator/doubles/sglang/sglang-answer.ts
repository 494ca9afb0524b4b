// Writes the answer of one request as SGLang does: its own shape at `/generate`, where the text of a stream is repeated from its start
// unless the server runs with --incremental-streaming-output, and OpenAI's elsewhere.
import type { ServerResponse } from 'node:http';
import type { SimulatedHintOutcome, SimulatedResult } from '../../types.ts';
import type { RequestListener } from '../../wire/engine-driver.ts';
import { answerJson } from '../double-server.ts';
import type { SglangRequest } from './sglang-request.ts';

/** What an answer is written with. */
export interface SglangAnswerOptions {
  readonly response: ServerResponse;
  readonly request: SglangRequest;
  readonly rid: string;
  readonly model: string;
  /** Seconds since the epoch. */
  readonly created: number;
  readonly textOf: (tokenId: number) => string;
  readonly incremental: boolean;
  /** It runs with --enable-cache-report. */
  readonly reportsCache: boolean;
  /** Told once, however it ended. */
  readonly over: () => void;
}

type Finish =
  | { readonly type: 'length'; readonly length: number }
  | { readonly type: 'abort'; readonly message: string };

/** One answer. */
export class SglangAnswer implements RequestListener {
  readonly #options: SglangAnswerOptions;
  readonly #ids: number[] = [];
  #text = '';
  #cachedTokens = 0;

  constructor(options: SglangAnswerOptions) {
    this.#options = options;
  }

  admitted(cachedTokens: number, _outcomes: readonly SimulatedHintOutcome[]): void {
    this.#cachedTokens = cachedTokens;
  }

  token(tokenId: number): void {
    const { request, textOf } = this.#options;
    const text = textOf(tokenId);
    this.#ids.push(tokenId);
    this.#text += text;
    if (!request.stream) return;
    const count = this.#ids.length;
    const finish: Finish | null = count === request.maxTokens ? { type: 'length', length: count } : null;
    if (request.api === 'generate') this.#write(this.#generated([tokenId], text, finish));
    else this.#openaiChunk(text, finish);
  }

  finished(result: SimulatedResult): void {
    const { over, request, response } = this.#options;
    over();
    if (result.failure !== undefined || result.rejected) {
      const why = result.rejected
        ? 'the request needs more memory than this server has'
        : `KV transfer failed: ${result.failure}`;
      this.#fail(result.rejected ? 400 : 500, why);
      return;
    }
    const finish: Finish = { type: 'length', length: this.#ids.length };
    if (request.stream) {
      if (request.api !== 'generate' && request.includeUsage) this.#write(this.#openai([], this.#usage()));
      response.end('data: [DONE]\n\n');
      return;
    }
    const whole =
      request.api === 'generate' ? this.#generated(this.#ids, this.#text, finish) : this.#wholeOpenai(finish);
    answerJson(response, 200, whole);
  }

  /** It was ended by `/abort_request`. */
  aborted(): void {
    const { over, request, response } = this.#options;
    over();
    const finish: Finish = { type: 'abort', message: 'Abort in waiting queue or running batch' };
    if (!request.stream) {
      answerJson(
        response,
        200,
        request.api === 'generate'
          ? this.#generated(this.#ids, this.#text, finish)
          : this.#wholeOpenai(finish),
      );
      return;
    }
    if (request.api === 'generate') this.#write(this.#generated([], '', finish));
    else this.#openaiChunk('', finish);
    response.end('data: [DONE]\n\n');
  }

  #fail(status: number, message: string): void {
    const { request, response } = this.#options;
    const error =
      request.api === 'generate'
        ? { error: { message } }
        : { object: 'error', message, type: 'BadRequest', param: null, code: status };
    if (!response.headersSent) {
      answerJson(response, status, error);
      return;
    }
    this.#write(error);
    response.end('data: [DONE]\n\n');
  }

  /** @param ids those since the chunk before; repeated from the start unless the server writes increments. */
  #generated(ids: readonly number[], text: string, finish: Finish | null): object {
    const { incremental, request, rid } = this.#options;
    const increment = incremental && request.stream;
    return {
      text: increment ? text : this.#text,
      output_ids: increment ? ids : this.#ids,
      meta_info: {
        id: rid,
        finish_reason: finish,
        prompt_tokens: request.tokens.length,
        weight_version: 'default',
        completion_tokens: this.#ids.length,
        cached_tokens: this.#cachedTokens,
      },
    };
  }

  #openaiChunk(text: string, finish: Finish | null): void {
    const ending = { finish_reason: finish?.type ?? null, matched_stop: null };
    if (this.#options.request.api === 'completions') {
      this.#write(this.#openai([{ index: 0, text, logprobs: null, ...ending }]));
      return;
    }
    if (this.#ids.length === 1) {
      const delta = { role: 'assistant', content: '', reasoning_content: null, tool_calls: null };
      this.#write(
        this.#openai([{ index: 0, delta, logprobs: null, finish_reason: null, matched_stop: null }]),
      );
    }
    const delta = { role: null, content: text, reasoning_content: null, tool_calls: null };
    this.#write(this.#openai([{ index: 0, delta, logprobs: null, ...ending }]));
  }

  #wholeOpenai(finish: Finish): object {
    const answer =
      this.#options.request.api === 'chat'
        ? { message: { role: 'assistant', content: this.#text, reasoning_content: null, tool_calls: null } }
        : { text: this.#text };
    const choice = {
      ...{ index: 0, ...answer, logprobs: null, finish_reason: finish.type, matched_stop: null },
      ...(this.#options.request.tellsPromptIds
        ? { prompt_token_ids: [...this.#options.request.tokens] }
        : {}),
    };
    return this.#openai([choice], this.#usage());
  }

  #openai(choices: readonly object[], usage: object | null = null): object {
    const { created, model, request, rid } = this.#options;
    const kind =
      request.api === 'completions'
        ? 'text_completion'
        : request.stream
          ? 'chat.completion.chunk'
          : 'chat.completion';
    return { id: rid, object: kind, created, model, choices, usage };
  }

  #usage(): object {
    const prompt = this.#options.request.tokens.length;
    const output = this.#ids.length;
    return {
      prompt_tokens: prompt,
      total_tokens: prompt + output,
      completion_tokens: output,
      prompt_tokens_details: this.#options.reportsCache ? { cached_tokens: this.#cachedTokens } : null,
      reasoning_tokens: 0,
    };
  }

  #write(value: object): void {
    const { response } = this.#options;
    if (!response.headersSent) {
      response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
    }
    response.write(`data: ${JSON.stringify(value)}\n\n`);
  }
}
