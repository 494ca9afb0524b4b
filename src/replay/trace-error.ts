// The error of a trace line.
import { PointsmanError } from '../plugin/index.ts';

/** What a trace is; for files whose first request is none, which are another kind of file altogether. */
const FORM =
  'a trace is Mooncake JSONL, plain or .gz: one request per line with timestamp, input_length, output_length and hash_ids';

/** A problem at a line of a trace file, counted from 1. */
export function wrong(name: string, line: number, problem: string): PointsmanError {
  const form = line === 1 ? `; ${FORM}` : '';
  return new PointsmanError('PM_REPLAY_TRACE', `${name}:${line}: ${problem}${form}`, {
    details: { file: name, line },
  });
}
