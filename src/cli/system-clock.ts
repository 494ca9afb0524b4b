// The one place that reads the machine's time.
import type { Clock } from '../plugin/index.ts';

/** The system's monotonic clock, shifted to the Unix epoch at start; its timers do not keep the process alive. */
export function systemClock(): Clock {
  const origin = Date.now() - performance.now();
  return {
    now: () => origin + performance.now(),
    schedule(delayMs, callback) {
      const timer = setTimeout(callback, delayMs);
      timer.unref();
      return () => clearTimeout(timer);
    },
  };
}
