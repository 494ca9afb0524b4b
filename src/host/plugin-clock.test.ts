import { expect, it } from 'vitest';
import { ManualClock } from '../plugin/index.ts';
import { pluginClock } from './plugin-clock.ts';

it('a plugin’s clock refuses a delay that is no number, and cuts one that timers cannot wait', () => {
  const time = new ManualClock(5);
  const clock = pluginClock(time);
  expect(clock.now()).toBe(5);
  const schedule = (delay: unknown) => () => Reflect.apply(clock.schedule, clock, [delay, () => undefined]);
  for (const [delay, got] of [
    [Number.NaN, 'NaN'],
    [undefined, 'undefined'],
    ['20', 'a string'],
  ]) {
    const message = `clock.schedule: delayMs must be a number of milliseconds, got ${got}`;
    expect(schedule(delay)).toThrow(expect.objectContaining({ code: 'PM_PLUGIN_INVALID', message }));
  }
  expect(time.nextTimerAt()).toBeNull();
  const cancel = clock.schedule(Number.POSITIVE_INFINITY, () => undefined);
  expect(time.nextTimerAt()).toBe(5 + 2 ** 31 - 1);
  cancel();
  clock.schedule(-3, () => undefined);
  expect(time.nextTimerAt()).toBe(5);
});
