import { expect, it } from 'vitest';
import { ManualClock } from '../plugin/index.ts';
import { expireBookings } from './booking-expiry.ts';

it('looks when the road says that it is time, at least once a minute, until it is stopped', () => {
  const clock = new ManualClock();
  const looks: number[] = [];
  const waits = [20_000, 300_000, Number.POSITIVE_INFINITY];
  const stop = expireBookings(
    {
      expireBookings: () => {
        looks.push(clock.now());
        return waits.shift() ?? 1e300;
      },
    },
    clock,
  );
  clock.advanceTo(200_000);
  expect(looks).toEqual([0, 20_000, 80_000, 140_000, 200_000]);
  stop();
  clock.advanceTo(1_000_000);
  expect(looks.length).toBe(5);
  expect(clock.nextTimerAt()).toBeNull();
});
