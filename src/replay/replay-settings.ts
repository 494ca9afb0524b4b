// Errors of replay settings.
import { PointsmanError } from '../plugin/index.ts';

/** @throws PM_REPLAY_SETTINGS unless an option is a whole number in a range. */
export function requireWhole(option: string, value: number, least: number, most: number): void {
  if (Number.isInteger(value) && value >= least && value <= most) return;
  throw invalid(`${option} is ${value}; it must be a whole number from ${least} to ${most}`);
}

/** The error. */
export function invalid(message: string): PointsmanError {
  return new PointsmanError('PM_REPLAY_SETTINGS', message);
}
