// The error of a trace line.
import { PointsmanError } from '../plugin/index.ts';

/** What a trace is; for files whose first request is none, which are another kind of file altogether. */
const FORMS = {
  mooncake:
    'a trace is Mooncake JSONL, plain or .gz: one request per line with timestamp, input_length, output_length and hash_ids',
  sessions:
    'a session trace is JSONL, plain or .gz: one session per line with id, block_size and requests, each with t, type, in, out and hash_ids',
} as const;

/** A kind of trace file. */
export type TraceFormat = keyof typeof FORMS;

/** A problem at a line of a trace file, counted from 1. */
export function wrong(
  name: string,
  line: number,
  problem: string,
  format: TraceFormat = 'mooncake',
): PointsmanError {
  const form = line === 1 ? `; ${FORMS[format]}` : '';
  return new PointsmanError('PM_REPLAY_TRACE', `${name}:${line}: ${problem}${form}`, {
    details: { file: name, line },
  });
}
