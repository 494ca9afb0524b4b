// A trace from rows at hand, under the same rules as one from a file, but for unknown fields: files come from elsewhere and may hold
// more than is read here; rows are written for this, and a field that nobody reads is a slip.
import { didYouMean } from '../config/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import { type Trace, TraceBuilder } from './trace.ts';
import { wrong } from './trace-error.ts';
import { parseTraceLine } from './trace-line.ts';
import { SESSION_FIELDS } from './trace-session.ts';

const FIELDS: readonly string[] = [
  'timestamp',
  'input_length',
  'output_length',
  'hash_ids',
  'session_id',
  'session_context',
];
const LONGEST_SHOWN = 64;

const encoder = new TextEncoder();

/**
 * Builds a trace of rows with the fields of a line of a Mooncake trace.
 * @throws PM_REPLAY_TRACE with the number of the wrong row, from 1, also for a field that no trace has; or when there is none.
 */
export function traceOfRows(name: string, rows: readonly object[]): Trace {
  const builder = new TraceBuilder();
  for (const [index, row] of rows.entries()) {
    refuseUnknown(name, index + 1, row);
    parseTraceLine(encoder.encode(JSON.stringify(row)), { name, line: index + 1, builder });
  }
  if (builder.requests === 0) {
    throw new PointsmanError('PM_REPLAY_TRACE', `${name} is empty; a trace has at least one request`);
  }
  return builder.build(name);
}

function refuseUnknown(name: string, line: number, row: object): void {
  const check = (value: object, known: readonly string[], place: string): void => {
    const field = Object.keys(value).find((key) => !known.includes(key));
    if (field === undefined) return;
    const shown = JSON.stringify(field.slice(0, LONGEST_SHOWN));
    const hint = didYouMean(field, known);
    throw wrong(name, line, `${place} has no field ${shown}${hint}; it may have ${known.join(', ')}`);
  };
  check(row, FIELDS, 'a row');
  if (!('session_context' in row)) return;
  const { session_context: session } = row;
  if (typeof session === 'object' && session !== null) check(session, SESSION_FIELDS, 'session_context');
}
