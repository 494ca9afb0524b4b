// Turns an answer of `/generate` into the completion its client asked for, a whole one or a stream, and reads on the way what the
// router needs. Answers of another shape, such as errors within a stream, are passed on as they are.
import { exactJsonStringify } from '../../plugin/index.ts';
import type { AnswerReader, AnswerSink } from '../dialect.ts';
import { SseSplitter, sseData } from '../sse-splitter.ts';
import type { EngineReport, EngineRequest } from '../types.ts';
import { usageAsked } from './generate-body.ts';
import { type GenerateFacts, readGenerateChunk, StreamedText } from './generate-chunk.ts';

/** A whole answer beyond this size is no completion of any model; it is passed on unread. */
const MAX_HELD_BYTES = 32 * 1024 * 1024;

/** What the reader needs to know of its request. */
export type GeneratedRequest = Pick<
  EngineRequest,
  'requestId' | 'servedAs' | 'stream' | 'body' | 'prefilledCachedTokens'
>;

/**
 * The reader of a request's answer.
 * @param date of the response head; it dates the completion, as `/generate` does not.
 */
export function readGenerateAnswer(
  request: GeneratedRequest,
  sink: AnswerSink,
  date: string | undefined,
): AnswerReader {
  const at = date === undefined ? Number.NaN : Date.parse(date);
  const created = Number.isNaN(at) ? 0 : Math.floor(at / 1000);
  return request.stream ? streamReader(request, sink, created) : wholeReader(request, sink, created);
}

function streamReader(request: GeneratedRequest, sink: AnswerSink, created: number): AnswerReader {
  const { always, atEnd } = usageAsked(request.body);
  const streamed = new StreamedText();
  let last: GenerateFacts | null = null;
  let ended = false;
  let counted = 0;
  let arrived = 0;
  let out: Uint8Array[] = [];

  const write = (object: object): void => {
    out.push(Buffer.from(`data: ${exactJsonStringify(object)}\n\n`));
  };
  const finish = (): void => {
    if (ended) return;
    ended = true;
    if (atEnd && last !== null) write(completion(request, created, last, [], usageOf(last, request)));
    out.push(Buffer.from('data: [DONE]\n\n'));
  };
  const splitter = new SseSplitter({
    event(bytes, whole) {
      const data = whole ? sseData(bytes) : null;
      if (data === '[DONE]') return finish();
      const facts = data === null ? null : readGenerateChunk(data);
      if (facts === null) {
        out.push(bytes);
        return;
      }
      last = facts;
      const { text, tokens } = streamed.next(facts);
      arrived += tokens;
      // Half a character gives no text yet.
      if (text === '' && facts.finishReason === null) return;
      write(
        completion(request, created, facts, [choiceOf(facts, text)], always ? usageOf(facts, request) : null),
      );
    },
  });
  // The client's bytes first, then the accounting.
  const settle = (): void => {
    if (out.length === 1 && out[0] !== undefined) sink.relay(out[0]);
    else if (out.length > 1) sink.relay(Buffer.concat(out));
    out = [];
    if (arrived === 0) return;
    counted += arrived;
    sink.tokens(arrived);
    arrived = 0;
  };
  return {
    data(bytes) {
      splitter.push(bytes);
      settle();
    },
    end() {
      splitter.end();
      settle();
      return reportOf(last, counted, request);
    },
    lost() {
      if (splitter.midEvent) sink.relay(Buffer.from('\n\n'));
    },
  };
}

function wholeReader(request: GeneratedRequest, sink: AnswerSink, created: number): AnswerReader {
  let parts: Uint8Array[] | null = [];
  let size = 0;
  return {
    data(bytes) {
      size += bytes.length;
      if (parts === null) sink.relay(bytes);
      else if (size <= MAX_HELD_BYTES) parts.push(bytes);
      else {
        for (const held of [...parts, bytes]) sink.relay(held);
        parts = null;
      }
    },
    end() {
      if (parts === null) return reportOf(null, 0, request);
      const bytes = Buffer.concat(parts);
      const facts = readGenerateChunk(bytes.toString('utf8'));
      if (facts === null) {
        sink.relay(bytes);
        return reportOf(null, 0, request);
      }
      const answer = completion(
        request,
        created,
        facts,
        [choiceOf(facts, facts.text)],
        usageOf(facts, request),
      );
      sink.relay(Buffer.from(exactJsonStringify(answer)));
      return reportOf(facts, 0, request);
    },
    lost() {},
  };
}

function completion(
  { requestId, servedAs }: GeneratedRequest,
  created: number,
  { id }: GenerateFacts,
  choices: readonly object[],
  usage: object | null,
): object {
  return {
    id: id ?? requestId,
    object: 'text_completion',
    created,
    model: servedAs,
    choices,
    ...(usage === null ? null : { usage }),
  };
}

function choiceOf({ finishReason, matched }: GenerateFacts, text: string): object {
  return { index: 0, text, logprobs: null, finish_reason: finishReason, matched_stop: matched };
}

function usageOf(facts: GenerateFacts, request: GeneratedRequest): object {
  const { completionTokens, promptTokens } = facts;
  const prompt = promptTokens ?? 0;
  const output = completionTokens ?? 0;
  return {
    prompt_tokens: prompt,
    total_tokens: prompt + output,
    completion_tokens: output,
    prompt_tokens_details: { cached_tokens: cachedTokens(facts, request) ?? 0 },
  };
}

function cachedTokens(facts: GenerateFacts | null, request: GeneratedRequest): number | null {
  return request.prefilledCachedTokens?.() ?? facts?.cachedTokens ?? null;
}

function reportOf(facts: GenerateFacts | null, counted: number, request: GeneratedRequest): EngineReport {
  return {
    promptTokens: facts?.promptTokens ?? null,
    cachedTokens: cachedTokens(facts, request),
    outputTokens: facts?.completionTokens ?? (counted > 0 ? counted : null),
    finishReason: facts?.finishReason ?? null,
    source: facts === null ? 'none' : 'usage',
  };
}
