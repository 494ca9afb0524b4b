// Writes the answer of one request as vLLM's server does: server-sent events while tokens come, or one JSON object at the end. Of several
// choices (`n`) each says the same.
import type { ServerResponse } from 'node:http';
import type { SimulatedResult } from '../types.ts';
import { answerJson } from './double-server.ts';
import { vllmError } from './vllm-errors.ts';
import type { VllmRequest } from './vllm-request.ts';

/** What an answer is written with. */
export interface VllmAnswerOptions {
  readonly response: ServerResponse;
  readonly request: VllmRequest;
  readonly requestId: string;
  /** Seconds since the epoch. */
  readonly created: number;
  readonly textOf: (tokenId: number) => string;
  /** Whether `usage` tells cached tokens. */
  readonly tellsCached: boolean;
  /** `kv_transfer_params` of an answer whose blocks wait for another engine. */
  readonly handoffAnswer: (held: NonNullable<SimulatedResult['handoff']>) => object | null;
}

/** One answer. */
export class VllmAnswer {
  readonly #options: VllmAnswerOptions;
  readonly #ids: number[] = [];
  #cachedTokens = 0;
  #text = '';
  #begun = false;

  constructor(options: VllmAnswerOptions) {
    this.#options = options;
  }

  admitted(cachedTokens: number): void {
    this.#cachedTokens = cachedTokens;
    const { request, requestId, response } = this.#options;
    if (!request.stream || response.headersSent) return;
    response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'x-request-id': requestId,
    });
    response.flushHeaders();
  }

  token(id: number): void {
    const { request, textOf } = this.#options;
    const piece = textOf(id);
    this.#ids.push(id);
    this.#text += piece;
    if (!request.stream) return;
    const finish = this.#ids.length === request.maxTokens ? this.#finishReason() : null;
    const first = !this.#begun;
    this.#begun = true;
    for (let index = 0; index < request.n; index += 1) this.#chunk(index, id, piece, finish, first);
  }

  finished(result: SimulatedResult): void {
    const { request, requestId, response } = this.#options;
    const problem =
      result.failure !== undefined
        ? vllmError(500, `KV transfer failed: ${result.failure}`)
        : result.rejected
          ? vllmError(500, 'The request needs more KV cache blocks than there are')
          : null;
    if (problem !== null) {
      // The status is out: the error goes in the next event.
      if (response.headersSent) response.end(`data: ${JSON.stringify(problem)}\n\ndata: [DONE]\n\n`);
      else answerJson(response, 500, problem, { 'x-request-id': requestId });
      return;
    }
    if (request.stream) {
      if (request.includeUsage) this.#event([], { usage: this.#usage() });
      response.end('data: [DONE]\n\n');
      return;
    }
    const choices = Array.from({ length: request.n }, (_, index) => this.#choice(index));
    answerJson(
      response,
      200,
      {
        ...this.#head(request.api === 'chat' ? 'chat.completion' : 'text_completion'),
        choices,
        usage: this.#usage(),
        ...(request.api === 'chat' && request.returnTokenIds
          ? { prompt_token_ids: Array.from(request.tokens) }
          : null),
        kv_transfer_params: (result.handoff && this.#options.handoffAnswer(result.handoff)) ?? null,
      },
      { 'x-request-id': requestId },
    );
  }

  #chunk(index: number, id: number, piece: string, finish: string | null, first: boolean): void {
    const { request } = this.#options;
    const ids = request.returnTokenIds ? { token_ids: [id] } : null;
    const end = { logprobs: null, finish_reason: finish };
    const usage = request.includeUsage && request.continuousUsage ? { usage: this.#usage() } : null;
    const prompt = request.returnTokenIds && first ? { prompt_token_ids: Array.from(request.tokens) } : null;
    if (request.api === 'completions') {
      this.#event([{ index, text: piece, ...end, stop_reason: null, ...prompt, ...ids }], usage);
      return;
    }
    if (first) {
      const opening = {
        index,
        delta: { role: 'assistant', content: '' },
        logprobs: null,
        finish_reason: null,
      };
      this.#event([opening], { ...usage, ...prompt });
    }
    this.#event([{ index, delta: { content: piece }, ...end, ...ids }], usage);
  }

  #choice(index: number): object {
    const { request } = this.#options;
    const end = { logprobs: null, finish_reason: this.#finishReason(), stop_reason: null };
    const ids = request.returnTokenIds ? { token_ids: this.#ids } : null;
    if (request.api === 'chat') {
      return { index, message: { role: 'assistant', content: this.#text }, ...end, ...ids };
    }
    const prompt = request.returnTokenIds ? { prompt_token_ids: Array.from(request.tokens) } : null;
    return { index, text: this.#text, ...end, ...ids, ...prompt };
  }

  #finishReason(): string {
    return this.#options.request.openEnded ? 'stop' : 'length';
  }

  #event(choices: readonly object[], more: object | null): void {
    const kind = this.#options.request.api === 'chat' ? 'chat.completion.chunk' : 'text_completion';
    this.#options.response.write(`data: ${JSON.stringify({ ...this.#head(kind), choices, ...more })}\n\n`);
  }

  #head(object: string): object {
    const { created, request, requestId } = this.#options;
    const id = `${request.api === 'chat' ? 'chatcmpl' : 'cmpl'}-${requestId}`;
    return { id, object, created, model: request.model };
  }

  #usage(): object {
    const { request, tellsCached } = this.#options;
    const prompt = request.tokens.length;
    const completion = this.#ids.length * request.n;
    return {
      prompt_tokens: prompt,
      total_tokens: prompt + completion,
      completion_tokens: completion,
      prompt_tokens_details: tellsCached ? { cached_tokens: this.#cachedTokens } : null,
    };
  }
}
