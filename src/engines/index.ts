// Engine dialects, the transport port, and the HTTP transport.
export { askReportedLoad, createHttpProbe, pollKvEvents } from './ask-engine.ts';
export type { AnswerReader, AnswerSink, EngineCall, EngineDialect } from './dialect.ts';
export { DIALECTS, dialectProblem, holdsOneSequence, requireDialect } from './dialects.ts';
export type { TokensAnswer, TokensQuestion } from './engine-tokens.ts';
export {
  createHttpTransport,
  type HttpTransport,
  type HttpTransportDeps,
} from './http-transport.ts';
export type { ReportedLoad } from './reported-load.ts';
export { streamedAnswer } from './sim/index.ts';
export { type SseSink, SseSplitter, sseData } from './sse-splitter.ts';
export { createTokensAsker, type TokensAsker } from './tokens-asker.ts';
export type {
  EngineExchange,
  EngineHandoff,
  EngineReport,
  EngineRequest,
  EngineSink,
  EngineTransport,
  ReportedHintOutcome,
  RequestApi,
} from './types.ts';
