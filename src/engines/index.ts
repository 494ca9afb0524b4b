// Engine dialects and the transport port.
export type {
  EngineExchange,
  EngineReport,
  EngineRequest,
  EngineSink,
  EngineTransport,
  ReportedHintOutcome,
  RequestApi,
} from './types.ts';
