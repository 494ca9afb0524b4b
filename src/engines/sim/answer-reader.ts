// Reads a vLLM-shaped answer while it is relayed: counts output tokens, picks up usage and finish reason, and withholds the
// usage-only chunk that the router asked for and the client did not.
import type { AnswerReader, AnswerSink } from '../dialect.ts';
import { SseSplitter, sseData } from '../sse-splitter.ts';
import type { EngineReport, EngineRequest } from '../types.ts';
import { readChunk, type UsageNumbers } from './chunk.ts';
import { askedForUsage } from './engine-call.ts';

/** A JSON answer beyond this size is relayed but not read. */
const MAX_READ_BYTES = 8 * 1024 * 1024;

/** The reader for a request's answer: streaming or whole. */
export function readAnswer(request: Pick<EngineRequest, 'stream' | 'body'>, sink: AnswerSink): AnswerReader {
  return request.stream ? streamReader(sink, askedForUsage(request.body)) : wholeReader(sink);
}

function streamReader(sink: AnswerSink, relayUsage: boolean): AnswerReader {
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
      arrived += chunk.tokens;
      if (!chunk.usageOnly || relayUsage) keep(bytes);
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
      return report(usage, finishReason, counted);
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
      return report(chunk?.usage ?? null, chunk?.finishReason ?? null, 0);
    },
    lost() {},
  };
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
