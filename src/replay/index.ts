// Traces through the router onto simulated engines, and the report.
export { parseCompare } from './compare.ts';
export { readTrace } from './read-trace.ts';
export { checkReplaySettings, type ReplayOptions, replay } from './replay.ts';
export { busiestOverMean, rejectionLines, reportTable } from './report-table.ts';
export { prepareRun } from './run.ts';
export { TRACE_BLOCK_SIZE, type Trace } from './trace.ts';
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
} from './types.ts';
