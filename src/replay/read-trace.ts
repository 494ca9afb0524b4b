// Reads a Mooncake JSONL file, compressed or not, line by line. Every line is checked; the first wrong one ends the reading with
// its number and what would be right, and nothing is kept.
import { PointsmanError } from '../plugin/index.ts';
import { nameOf, readLines } from './read-lines.ts';
import { TRACE_BLOCK_SIZE, type Trace, TraceBuilder } from './trace.ts';
import { wrong } from './trace-error.ts';
import { parseTraceLine } from './trace-line.ts';

/** Bytes of one line. */
export const MAX_LINE_BYTES = 4 * 1024 * 1024;
/** Requests of one trace. */
export const MAX_REQUESTS = 5_000_000;
/** Block ids of one trace, all requests together. */
export const MAX_IDS = 100_000_000;

/**
 * Reads a trace.
 * @param limit read only this many requests, from 1; null = all.
 * @throws PM_REPLAY_TRACE naming the file and, for a wrong line, its number.
 */
export async function readTrace(file: string, limit: number | null = null): Promise<Trace> {
  const name = nameOf(file);
  const builder = new TraceBuilder();
  await readLines(file, MAX_LINE_BYTES, (bytes, line) => {
    parseTraceLine(bytes, { name, line, builder });
    if (builder.requests > MAX_REQUESTS) {
      throw wrong(name, line, `a trace holds at most ${MAX_REQUESTS} requests`);
    }
    if (builder.ids > MAX_IDS) throw wrong(name, line, `a trace holds at most ${MAX_IDS} hash_ids in all`);
    return builder.requests !== limit;
  });
  if (builder.requests === 0) {
    throw new PointsmanError(
      'PM_REPLAY_TRACE',
      `${name} holds no request; a trace has one JSON object per line, with ${TRACE_BLOCK_SIZE}-token hash_ids`,
      { details: { file: name } },
    );
  }
  return builder.build(name);
}
