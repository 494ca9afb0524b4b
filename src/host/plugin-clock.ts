// The clock as plugins get it. Timers of the machine take what is no number, and what is too long for them, for "at once".
import { type Clock, PointsmanError } from '../plugin/index.ts';
import { describeValue } from './selection-errors.ts';

/** Longest delay of the machine's timers, ms: some 25 days. */
const LONGEST_MS = 2 ** 31 - 1;

/** A clock that refuses a delay that is no number, and cuts one to the longest there is. */
export function pluginClock(clock: Clock): Clock {
  return Object.freeze({
    now: () => clock.now(),
    schedule(delayMs: number, callback: () => void) {
      if (typeof delayMs === 'number' && !Number.isNaN(delayMs)) {
        return clock.schedule(Math.min(delayMs, LONGEST_MS), callback);
      }
      throw new PointsmanError(
        'PM_PLUGIN_INVALID',
        `clock.schedule: delayMs must be a number of milliseconds, got ${describeValue(delayMs)}`,
      );
    },
  });
}
