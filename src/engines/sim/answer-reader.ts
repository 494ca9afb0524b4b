// Reads a vLLM-shaped answer while it is relayed: counts output tokens, picks up usage and finish reason, and withholds the
// usage-only chunk that the router asked for and the client did not.
import type { AnswerReader, AnswerSink } from '../dialect.ts';
import { SseSplitter, sseData } from '../sse-splitter.ts';
import { askedForUsage } from '../stream-usage.ts';
import type { EngineReport } from '../types.ts';
import { readChunk, type UsageNumbers } from './chunk.ts';
import {
  type AnsweredRequest,
  isHandedOver,
  isRewritten,
  publicAnswer,
  transferParams,
} from './public-answer.ts';

/** A JSON answer beyond this size is relayed but not read. */
const MAX_READ_BYTES = 8 * 1024 * 1024;
/** An answer is held back until it is complete, unless it is longer: then it passes unread. */
const MAX_HELD_BYTES = 32 * 1024 * 1024;

/** The reader for a request's answer: streaming or whole. */
export function readAnswer(request: AnsweredRequest, sink: AnswerSink): AnswerReader {
  if (request.stream) return streamReader(sink, request);
  return isRewritten(request) ? heldReader(sink, request) : wholeReader(sink);
}

function streamReader(sink: AnswerSink, request: AnsweredRequest): AnswerReader {
  const relayUsage = askedForUsage(request.body);
  const rewritten = isRewritten(request);
  let promptTokenIds: Uint32Array | null = null;
  let usage: UsageNumbers | null = null;
  let finishReason: string | null = null;
  let counted = 0;
  let arrived = 0;
  // Events that arrived together leave together: `pending` spans the events of one chunk as long as they are adjacent.
  let pending: Uint8Array | null = null;

  const flush = (): void => {
    if (pending !== null) sink.relay(pending);
    pending = null;
  };
  const keep = (bytes: Uint8Array): void => {
    if (
      pending !== null &&
      pending.buffer === bytes.buffer &&
      pending.byteOffset + pending.length === bytes.byteOffset
    ) {
      pending = new Uint8Array(bytes.buffer, pending.byteOffset, pending.length + bytes.length);
      return;
    }
    flush();
    pending = bytes;
  };
  // The client's bytes first, then the accounting.
  const settle = (): void => {
    flush();
    if (arrived === 0) return;
    counted += arrived;
    sink.tokens(arrived);
    arrived = 0;
  };
  const splitter = new SseSplitter({
    event(bytes, whole) {
      const data = whole ? sseData(bytes) : null;
      const chunk = data === null || data === '[DONE]' ? null : readChunk(data);
      if (chunk === null) return keep(bytes);
      if (chunk.usage !== null) usage = chunk.usage;
      finishReason = chunk.finishReason ?? finishReason;
      promptTokenIds ??= chunk.promptTokenIds;
      arrived += chunk.tokens;
      if (chunk.usageOnly && !relayUsage) return;
      const shown = rewritten && data !== null ? publicAnswer(data, request) : null;
      keep(shown === null ? bytes : Buffer.from(`data: ${shown}\n\n`));
    },
  });
  return {
    data(bytes) {
      splitter.push(bytes);
      settle();
    },
    end() {
      splitter.end();
      settle();
      return withPromptIds(answerReport(usage, finishReason, counted, request), promptTokenIds);
    },
    lost() {
      // Half of a too long event is already with the client: a blank line closes it, so that what follows is read.
      if (splitter.midEvent) sink.relay(Buffer.from('\n\n'));
    },
  };
}

/** Of a whole answer nothing says when its tokens were generated, so none are told: the report at its end has their number. */
function wholeReader(sink: AnswerSink): AnswerReader {
  let parts: Uint8Array[] = [];
  let size = 0;
  return {
    data(bytes) {
      size += bytes.length;
      if (size <= MAX_READ_BYTES) parts.push(bytes);
      else parts = [];
      sink.relay(bytes);
    },
    end() {
      const chunk = size <= MAX_READ_BYTES ? readChunk(Buffer.concat(parts).toString('utf8')) : null;
      const told = report(chunk?.usage ?? null, chunk?.finishReason ?? null, 0);
      return withPromptIds(told, chunk?.promptTokenIds ?? null);
    },
    lost() {},
  };
}

/** Of an answer that concerns the router the client sees nothing before the end, as that must be taken out first. */
function heldReader(sink: AnswerSink, request: AnsweredRequest): AnswerReader {
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
      if (parts === null) return answerReport(null, null, 0, request);
      const bytes = Buffer.concat(parts);
      const text = bytes.toString('utf8');
      const chunk = readChunk(text);
      const shown = publicAnswer(text, request);
      sink.relay(shown === null ? bytes : Buffer.from(shown));
      const told = answerReport(chunk?.usage ?? null, chunk?.finishReason ?? null, 0, request);
      const handoff = isHandedOver(request) ? { handoff: transferParams(text) } : null;
      return withPromptIds({ ...told, ...handoff }, chunk?.promptTokenIds ?? null);
    },
    lost() {},
  };
}

function answerReport(
  usage: UsageNumbers | null,
  finishReason: string | null,
  counted: number,
  request: AnsweredRequest,
): EngineReport {
  const told = report(usage, finishReason, counted);
  const cachedTokens = request.prefilledCachedTokens?.() ?? null;
  return cachedTokens === null ? told : { ...told, cachedTokens };
}

function withPromptIds(told: EngineReport, promptTokenIds: Uint32Array | null): EngineReport {
  return promptTokenIds === null ? told : { ...told, promptTokenIds };
}

function report(usage: UsageNumbers | null, finishReason: string | null, counted: number): EngineReport {
  return {
    promptTokens: usage?.promptTokens ?? null,
    cachedTokens: usage?.cachedTokens ?? null,
    outputTokens: usage?.outputTokens ?? (counted > 0 ? counted : null),
    finishReason,
    source: usage === null ? 'none' : 'usage',
  };
}
