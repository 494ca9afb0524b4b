// A clock for whoever waits for what other processes send: its waits pass while this process runs, and not while it is held up.
import type { Clock } from '../plugin/index.ts';

/** The longest wait in one piece, ms. */
export const SLICE_MS = 50;

/**
 * The same clock with waits cut into slices, between which sockets are read. A process that got no processor for a while finds its timers
 * due before it reads what came meanwhile: here that passes for one slice, and a wait never ends unheard.
 * @param clock the time, which is not changed.
 */
export function slicedClock(clock: Clock): Clock {
  return {
    now: () => clock.now(),
    schedule(delayMs, callback) {
      let leftMs = delayMs;
      let cancel = (): void => undefined;
      const wait = (): void => {
        const slice = Math.min(leftMs, SLICE_MS);
        leftMs -= slice;
        cancel = clock.schedule(slice, leftMs > 0 ? wait : callback);
      };
      wait();
      return () => cancel();
    },
  };
}
