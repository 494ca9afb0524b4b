import { expect, test } from 'vitest';
import { threadClock } from './thread-clock.ts';

test('for a policy that answers at once it stands at the time of its call', () => {
  const clock = threadClock(null);
  clock.setNow(500);
  expect(clock.now()).toBe(500);
  clock.setNow(400);
  expect(clock.now()).toBe(400);
});

test('for a plugin that waits it runs on, and never goes back', () => {
  let machine = 70;
  const clock = threadClock(() => machine);
  clock.setNow(500);
  machine += 10;
  expect(clock.now()).toBe(510);
  clock.setNow(505);
  expect(clock.now()).toBe(510);
  machine += 1;
  expect(clock.now()).toBe(511);
  clock.setNow(900);
  expect(clock.now()).toBe(900);
});

test('its timers can be taken back', async () => {
  const clock = threadClock(null);
  const called: string[] = [];
  const cancel = clock.schedule(0, () => called.push('first'));
  cancel();
  await new Promise<void>((resolve) => {
    clock.schedule(0, () => {
      called.push('second');
      resolve();
    });
    // Its own timers do not keep a thread alive.
    setTimeout(() => undefined, 50);
  });
  expect(called).toEqual(['second']);
});
