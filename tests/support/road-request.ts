// A request as replay hands it to the road, and an answer to nobody, for tests of whatever lies behind the road.
import { NO_CONSTRAINTS, type ResponseSink, type RoadRequest } from '../../src/road/index.ts';

/** A completion of 4 tokens for the model `tiny`, whose tokens are given. */
export function givenRequest(
  requestId: string,
  tokens: Uint32Array,
  changes: Partial<RoadRequest> = {},
): RoadRequest {
  return {
    requestId,
    door: 'replay',
    partition: { model: 'tiny', routingGroup: 'default' },
    role: 'aggregated',
    servedAs: 'tiny',
    api: 'completions',
    body: null,
    stream: true,
    tokens,
    tokensSource: 'given',
    maxOutputTokens: 4,
    expectedOutputTokens: null,
    loraName: null,
    cacheSalt: null,
    session: null,
    constraints: NO_CONSTRAINTS,
    incomingHint: null,
    tokenizeMicros: 0,
    ...changes,
  };
}

/** So many tokens, counted from a number on. */
export function countedTokens(length: number, from = 0): Uint32Array {
  return Uint32Array.from({ length }, (_, at) => from + at);
}

/** Takes an answer and tells nobody. */
export const SILENT: ResponseSink = {
  booked() {},
  head() {},
  data() {},
  tokens() {},
  finished() {},
  failed() {},
};

/** What an engine reports of {@link countedTokens} of 32. */
export const REPORT = {
  promptTokens: 32,
  cachedTokens: 0,
  outputTokens: 1,
  finishReason: 'stop',
  source: 'usage',
} as const;
