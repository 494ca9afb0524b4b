// Checks one line of a Mooncake trace and adds it to the columns.
import { shown } from './line-fields.ts';
import { TRACE_BLOCK_SIZE, type TraceBuilder } from './trace.ts';
import { wrong } from './trace-error.ts';
import { sessionOfLine } from './trace-session.ts';

/** As many tokens as a prompt that is hashed may have. */
const MAX_LENGTH = 4_194_304;
const MAX_ID = 0xffffffff;
const MAX_TIMESTAMP = 1e15;

const decoder = new TextDecoder('utf-8', { fatal: true });

/** Where a line stands. */
export interface TraceLineContext {
  readonly name: string;
  readonly line: number;
  readonly builder: TraceBuilder;
}

/**
 * Adds the request of one line. Further fields are ignored.
 * @throws PM_REPLAY_TRACE with file, line number and what would be right; nothing is added then.
 */
export function parseTraceLine(bytes: Uint8Array, context: TraceLineContext): void {
  const { name, line, builder } = context;
  const row = objectOf(bytes, context);
  const timestamp = numberOf(row, 'timestamp', context, 0, MAX_TIMESTAMP, false);
  const inputLength = numberOf(row, 'input_length', context, 1, MAX_LENGTH, true);
  const outputLength = numberOf(row, 'output_length', context, 1, MAX_LENGTH, true);
  const ids = row.hash_ids;
  if (!Array.isArray(ids)) {
    throw wrong(name, line, 'hash_ids is missing or no list; it holds one id per 512 tokens of the prompt');
  }
  const needed = Math.ceil(inputLength / TRACE_BLOCK_SIZE);
  if (ids.length !== needed) {
    throw wrong(
      name,
      line,
      `hash_ids has ${ids.length} entries, but input_length ${inputLength} makes ${needed} blocks of ${TRACE_BLOCK_SIZE} tokens`,
    );
  }
  for (const [index, id] of (ids as readonly unknown[]).entries()) {
    if (typeof id === 'number' && Number.isInteger(id) && id >= 0 && id <= MAX_ID) continue;
    throw wrong(
      name,
      line,
      `hash_ids[${index}] is ${shown(id)}; an id is a whole number from 0 to ${MAX_ID}`,
    );
  }
  if (timestamp < builder.lastTimestamp) {
    throw wrong(
      name,
      line,
      `timestamp ${timestamp} is before that of the request above, ${builder.lastTimestamp}; requests stand in order of arrival`,
    );
  }
  const session = sessionOfLine(row, (text) => wrong(name, line, text));
  builder.add(timestamp, inputLength, outputLength, ids as readonly number[], session);
}

function objectOf(bytes: Uint8Array, context: TraceLineContext): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(decoder.decode(bytes));
  } catch {
    throw wrong(context.name, context.line, 'the line is no valid JSON in UTF-8');
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Readonly<Record<string, unknown>>;
  }
  throw wrong(
    context.name,
    context.line,
    'the line is no JSON object with timestamp, input_length, output_length and hash_ids',
  );
}

function numberOf(
  row: Readonly<Record<string, unknown>>,
  field: string,
  context: TraceLineContext,
  least: number,
  most: number,
  whole: boolean,
): number {
  const value = row[field];
  if (typeof value === 'number' && value >= least && value <= most && (!whole || Number.isInteger(value))) {
    return value;
  }
  const what = `${whole ? 'a whole number' : 'a number'} from ${least} to ${most}`;
  throw wrong(
    context.name,
    context.line,
    value === undefined
      ? `${field} is missing; it is ${what}`
      : `${field} is ${shown(value)}; it must be ${what}`,
  );
}
