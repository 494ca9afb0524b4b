// A trace from rows at hand, under the same rules as one from a file.
import { PointsmanError } from '../plugin/index.ts';
import { type Trace, TraceBuilder } from './trace.ts';
import { parseTraceLine } from './trace-line.ts';

const encoder = new TextEncoder();

/**
 * Builds a trace of rows with the fields of a line of a Mooncake trace.
 * @throws PM_REPLAY_TRACE with the number of the wrong row, from 1, or when there is none.
 */
export function traceOfRows(name: string, rows: readonly object[]): Trace {
  const builder = new TraceBuilder();
  for (const [index, row] of rows.entries()) {
    parseTraceLine(encoder.encode(JSON.stringify(row)), { name, line: index + 1, builder });
  }
  if (builder.requests === 0) {
    throw new PointsmanError('PM_REPLAY_TRACE', `${name} is empty; a trace has at least one request`);
  }
  return builder.build(name);
}
