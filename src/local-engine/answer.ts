// Writes one answer in OpenAI's shapes: server-sent events while text comes, or one JSON object at the end.
import type { EngineRequest, EngineSink, ReportedHintOutcome } from '../engines/index.ts';
import type { SimulatedHintOutcome } from '../simulator/index.ts';

/** Token counts of one request. */
export interface LocalUsage {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
}

/** One answer. */
export class LocalAnswer {
  readonly #request: EngineRequest;
  readonly #sink: EngineSink;
  readonly #created: number;
  #text = '';

  /** @param nowMs for `created`. */
  constructor(request: EngineRequest, sink: EngineSink, nowMs: number) {
    this.#request = request;
    this.#sink = sink;
    this.#created = Math.floor(nowMs / 1000);
  }

  /** The request runs. */
  begin(outcomes: readonly SimulatedHintOutcome[]): void {
    const { api, stream } = this.#request;
    const headers = stream
      ? { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' }
      : { 'content-type': 'application/json' };
    this.#sink.head(200, headers, outcomes.map(reported));
    if (stream && api === 'chat') this.#event([choice({ delta: { role: 'assistant', content: '' } }, null)]);
  }

  /** One more token; `text` is what it adds, empty while a character is not complete. */
  token(text: string): void {
    this.text(text);
    this.#sink.tokens(1);
  }

  /** Text that was held back. */
  text(text: string): void {
    if (text === '') return;
    const { api, stream } = this.#request;
    if (!stream) this.#text += text;
    else this.#event([choice(api === 'chat' ? { delta: { content: text } } : { text }, null)]);
  }

  /** The answer is complete. */
  finish(finishReason: 'stop' | 'length', usage: LocalUsage): void {
    const { api, body, stream } = this.#request;
    const isChat = api === 'chat';
    if (stream) {
      this.#event([choice(isChat ? { delta: {} } : { text: '' }, finishReason)]);
      if (wantsUsage(body)) this.#event([], usage);
      this.#sink.data(Buffer.from('data: [DONE]\n\n'));
    } else {
      const text = this.#text;
      const written = isChat ? { message: { role: 'assistant', content: text } } : { text };
      const kind = isChat ? 'chat.completion' : 'text_completion';
      this.#sink.data(
        Buffer.from(JSON.stringify(this.#object(kind, [choice(written, finishReason)], usage))),
      );
    }
    const { cachedTokens, outputTokens, promptTokens } = usage;
    this.#sink.finished({ promptTokens, cachedTokens, outputTokens, finishReason, source: 'usage' });
  }

  #event(choices: readonly object[], usage?: LocalUsage): void {
    const kind = this.#request.api === 'chat' ? 'chat.completion.chunk' : 'text_completion';
    this.#sink.data(Buffer.from(`data: ${JSON.stringify(this.#object(kind, choices, usage))}\n\n`));
  }

  #object(object: string, choices: readonly object[], usage?: LocalUsage): object {
    const { api, requestId, servedAs: model } = this.#request;
    const id = `${api === 'chat' ? 'chatcmpl' : 'cmpl'}-${requestId}`;
    return { id, object, created: this.#created, model, choices, ...(usage && { usage: written(usage) }) };
  }
}

function choice(content: object, finishReason: string | null): object {
  return { index: 0, ...content, logprobs: null, finish_reason: finishReason };
}

function written({ cachedTokens, outputTokens, promptTokens }: LocalUsage): object {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: outputTokens,
    total_tokens: promptTokens + outputTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  };
}

function wantsUsage(body: EngineRequest['body']): boolean {
  const options = body?.stream_options;
  return (
    typeof options === 'object' &&
    options !== null &&
    'include_usage' in options &&
    options.include_usage === true
  );
}

function reported(outcome: SimulatedHintOutcome): ReportedHintOutcome {
  return {
    actionId: outcome.action_id,
    outcome: outcome.outcome,
    reason: outcome.reason ?? null,
    blocksAsked: outcome.blocks_asked ?? null,
    blocksDone: outcome.blocks_done ?? null,
    bytes: outcome.bytes ?? null,
    ms: outcome.ms ?? null,
  };
}
