// The error of a trace line.
import { PointsmanError } from '../plugin/index.ts';

/** A problem at a line of a trace file, counted from 1. */
export function wrong(name: string, line: number, problem: string): PointsmanError {
  return new PointsmanError('PM_REPLAY_TRACE', `${name}:${line}: ${problem}`, {
    details: { file: name, line },
  });
}
