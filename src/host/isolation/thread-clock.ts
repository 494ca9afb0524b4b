// The clock of a plugin's thread. Its timers run by the machine's time. Its reading is the router's: as it was when the last message
// was sent, so that a hint policy decides by the same time as in process; for a plugin that waits it runs on from there.
import type { Clock } from '../../plugin/index.ts';

/** A clock that is set from outside. */
export interface ThreadClock extends Clock {
  setNow(nowMs: number): void;
}

/**
 * Its timers do not keep the thread alive.
 * @param machineMs null = the reading stays as it was set; else it runs on by this, and never goes back
 */
export function threadClock(machineMs: (() => number) | null): ThreadClock {
  let set = 0;
  let setAt = 0;
  const elapsed = () => (machineMs === null ? 0 : machineMs() - setAt);
  return {
    now: () => set + elapsed(),
    setNow(nowMs) {
      set = machineMs === null ? nowMs : Math.max(nowMs, set + elapsed());
      setAt = machineMs?.() ?? 0;
    },
    schedule(delayMs, callback) {
      const timer = setTimeout(callback, delayMs);
      timer.unref();
      return () => clearTimeout(timer);
    },
  };
}
