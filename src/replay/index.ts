// Traces through the router onto simulated engines, and the report.
export { parseCompare, REPLAY_MODES, REPLAY_POLICIES } from './compare.ts';
export { readSessionTrace, traceFormatOf } from './read-session-trace.ts';
export { readTrace } from './read-trace.ts';
export { checkReplaySettings, type ReplayOptions, replay } from './replay.ts';
export { busiestOverMean, rejectionLines, reportTable } from './report-table.ts';
export { prepareRun } from './run.ts';
export type { SessionTrace } from './session-trace.ts';
export { TRACE_BLOCK_SIZE, type Trace } from './trace.ts';
export type { TraceFormat } from './trace-error.ts';
export { traceOfRows } from './trace-rows.ts';
export type {
  ComposeReplayRouter,
  PolicyFault,
  ReplayReport,
  ReplayRouter,
  ReplayRouterOptions,
  ReplaySettings,
  RoutingChoice,
  RunReport,
  SessionReplaySettings,
} from './types.ts';
