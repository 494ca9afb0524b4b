// The clock of a plugin's thread: it shows what the router's clock showed when it sent the last message, so that a policy decides
// by the same time as in process; its timers run by the machine's time.
import type { Clock } from '../../plugin/index.ts';

/** A clock that is set from outside. Its timers do not keep the thread alive. */
export function threadClock(): Clock & { setNow(nowMs: number): void } {
  let reading = 0;
  return {
    now: () => reading,
    setNow(nowMs) {
      reading = nowMs;
    },
    schedule(delayMs, callback) {
      const timer = setTimeout(callback, delayMs);
      timer.unref();
      return () => clearTimeout(timer);
    },
  };
}
