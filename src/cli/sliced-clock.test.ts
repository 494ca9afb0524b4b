import { expect, it } from 'vitest';
import type { Clock } from '../plugin/index.ts';
import { SLICE_MS, slicedClock } from './sliced-clock.ts';

/** A clock whose timers are run by hand, however late; `slept` are the waits that were asked for. */
function lateClock() {
  const slept: number[] = [];
  let due: (() => void) | null = null;
  const clock: Clock = {
    now: () => 7,
    schedule(delayMs, callback) {
      slept.push(delayMs);
      due = callback;
      return () => {
        due = null;
      };
    },
  };
  const run = (): void => {
    const callback = due;
    due = null;
    callback?.();
  };
  return { clock, slept, run, waits: () => due !== null };
}

it('a process that was held up through a whole wait goes on waiting for the rest of it', () => {
  const late = lateClock();
  let heard = 0;
  slicedClock(late.clock).schedule(2 * SLICE_MS + 10, () => {
    heard += 1;
  });
  late.run();
  late.run();
  expect(heard).toBe(0);
  late.run();
  expect(heard).toBe(1);
  expect(late.slept).toEqual([SLICE_MS, SLICE_MS, 10]);
  expect(late.waits()).toBe(false);
});

it('a wait that is taken back in a later slice never ends', () => {
  const late = lateClock();
  const cancel = slicedClock(late.clock).schedule(3 * SLICE_MS, () => expect.unreachable());
  late.run();
  cancel();
  expect(late.waits()).toBe(false);
});

it('a wait within a slice is one, and the time is the clock’s', () => {
  const late = lateClock();
  const sliced = slicedClock(late.clock);
  let heard = 0;
  sliced.schedule(0, () => {
    heard += 1;
  });
  late.run();
  expect([heard, late.slept, sliced.now()]).toEqual([1, [0], 7]);
});
