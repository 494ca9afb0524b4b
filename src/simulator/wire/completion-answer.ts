// Writes the answer of one request in OpenAI's shapes: server-sent events while tokens come, or one JSON object at the end. The
// head is held back until the engine admits the request, because it carries the outcomes of its hints.
import type { ServerResponse } from 'node:http';
import { PointsmanError } from '../../plugin/index.ts';
import type { SimulatedHintOutcome, SimulatedResult } from '../types.ts';
import type { CompletionRequest } from './completion-request.ts';
import type { RequestListener } from './engine-driver.ts';
import { sendError, sendJson } from './http-answers.ts';
import { OUTCOME_HEADER, outcomeHeader } from './outcome-header.ts';

/** What an answer is written with. */
export interface AnswerOptions {
  readonly response: ServerResponse;
  readonly request: CompletionRequest;
  /** Id of the response object, `cmpl-…`. */
  readonly id: string;
  readonly requestId: string;
  readonly model: string;
  /** Seconds since the epoch. */
  readonly created: number;
  /** Text of one output token. */
  readonly textOf: (tokenId: number) => string;
  /** `kv_transfer_params` of an answer whose blocks wait for another engine. */
  readonly handoffAnswer: (held: NonNullable<SimulatedResult['handoff']>) => object | null;
}

/** One answer. */
export class CompletionAnswer implements RequestListener {
  readonly #options: AnswerOptions;
  #headers: Record<string, string>;
  #cachedTokens = 0;
  #tokens = 0;
  #text = '';

  constructor(options: AnswerOptions) {
    this.#options = options;
    this.#headers = { 'x-request-id': options.requestId };
  }

  admitted(cachedTokens: number, outcomes: readonly SimulatedHintOutcome[]): void {
    const { request, response } = this.#options;
    this.#cachedTokens = cachedTokens;
    if (request.hint !== null) this.#headers[OUTCOME_HEADER] = outcomeHeader(request.hint, outcomes);
    if (!request.stream) return;
    response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      ...this.#headers,
    });
    response.flushHeaders();
  }

  token(tokenId: number): void {
    const { request, textOf } = this.#options;
    const text = textOf(tokenId);
    this.#tokens += 1;
    if (!request.stream) {
      this.#text += text;
      return;
    }
    const finish = this.#tokens === request.maxTokens ? 'length' : null;
    if (request.api === 'completions') {
      this.#event([{ index: 0, text, logprobs: null, finish_reason: finish, stop_reason: null }]);
      return;
    }
    if (this.#tokens === 1) {
      const delta = { role: 'assistant', content: '' };
      this.#event([{ index: 0, delta, logprobs: null, finish_reason: null }]);
    }
    this.#event([{ index: 0, delta: { content: text }, logprobs: null, finish_reason: finish }]);
  }

  finished(result: SimulatedResult): void {
    const { request, response } = this.#options;
    if (result.failure !== undefined) {
      this.#failed(`the KV of this request was not handed over: ${result.failure}`);
      return;
    }
    if (result.rejected) {
      sendError(
        response,
        new PointsmanError(
          'PM_SIM_INVALID',
          `the request needs more KV blocks than this engine has: ${request.tokens.length} prompt and ${request.maxTokens} output tokens`,
        ),
        this.#headers,
      );
      return;
    }
    if (request.stream) {
      if (request.includeUsage) this.#event([], this.#usage());
      response.end('data: [DONE]\n\n');
      return;
    }
    const choice =
      request.api === 'chat'
        ? { message: { role: 'assistant', content: this.#text }, logprobs: null }
        : { text: this.#text, logprobs: null };
    sendJson(
      response,
      200,
      this.#object(
        request.api === 'chat' ? 'chat.completion' : 'text_completion',
        [{ index: 0, ...choice, finish_reason: 'length', stop_reason: null }],
        this.#usage(),
        result.handoff && this.#options.handoffAnswer(result.handoff),
      ),
      this.#headers,
    );
  }

  /** A stream that has begun can only break off. */
  #failed(sentence: string): void {
    const { response } = this.#options;
    if (response.headersSent) response.destroy();
    else sendError(response, new PointsmanError('PM_SIM_HANDOFF', sentence), this.#headers);
  }

  #event(choices: readonly object[], usage?: object): void {
    const kind = this.#options.request.api === 'chat' ? 'chat.completion.chunk' : 'text_completion';
    this.#options.response.write(`data: ${JSON.stringify(this.#object(kind, choices, usage))}\n\n`);
  }

  #object(object: string, choices: readonly object[], usage?: object, handoff?: object | null): object {
    const { id, created, model } = this.#options;
    return {
      ...{ id, object, created, model, choices },
      ...(usage === undefined ? null : { usage }),
      ...(handoff ? { kv_transfer_params: handoff } : null),
    };
  }

  #usage(): object {
    const prompt = this.#options.request.tokens.length;
    return {
      prompt_tokens: prompt,
      total_tokens: prompt + this.#tokens,
      completion_tokens: this.#tokens,
      prompt_tokens_details: { cached_tokens: this.#cachedTokens },
    };
  }
}
