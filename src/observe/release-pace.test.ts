import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ReleasePace, retryAfterSeconds } from './release-pace.ts';

it('expects as many mean pauses as it takes releases of mean size', () => {
  const pace = new ReleasePace();
  expect(pace.msUntil(1, 0)).toBeNull();
  pace.restart(0);
  expect(pace.msUntil(1, 500)).toBeNull();
  pace.released(10, 1000);
  pace.released(30, 4000);
  // Mean size 20, mean pause 2,000 ms.
  expect(pace.msUntil(1, 4000)).toBe(2000);
  expect(pace.msUntil(20, 4000)).toBe(2000);
  expect(pace.msUntil(21, 4000)).toBe(4000);
  expect(pace.msUntil(100, 4000)).toBe(10_000);
});

it('takes off what has passed of an even pause, and expects an overdue one to be so for as long again', () => {
  const pace = new ReleasePace();
  pace.restart(0);
  pace.released(1, 1000);
  expect([1000, 1300, 1900, 2000].map((now) => pace.msUntil(1, now))).toEqual([1000, 700, 100, 0]);
  expect([2002, 5000, 61_000].map((now) => pace.msUntil(1, now))).toEqual([2, 3000, 59_000]);
});

it('believes the less in what has passed the more pauses vary', () => {
  const pace = new ReleasePace();
  pace.restart(0);
  pace.released(1, 1000);
  pace.released(1, 4000);
  // Mean 2,000, variance 1,000²: a quarter of the squared mean.
  expect([4000, 5000, 5900, 6000, 6100].map((now) => pace.msUntil(1, now))).toEqual([
    2000, 1000, 500, 500, 500,
  ]);
  const wild = new ReleasePace();
  wild.restart(0);
  for (const now of [0, 0, 0, 0, 0, 0, 0, 8000]) wild.released(1, now);
  expect([8000, 8500, 8999].map((now) => wild.msUntil(1, now))).toEqual([1000, 1000, 1000]);
});

it('counts no pause in which nothing was held', () => {
  const pace = new ReleasePace();
  pace.restart(0);
  pace.released(1, 100);
  pace.restart(1_000_000);
  pace.released(1, 1_000_100);
  expect(pace.msUntil(1, 1_000_100)).toBe(100);
});

it('ignores a release whose beginning nobody saw, and times the next from it', () => {
  const pace = new ReleasePace();
  pace.released(5, 7000);
  expect(pace.msUntil(1, 7000)).toBeNull();
  pace.released(5, 7200);
  expect(pace.msUntil(5, 7200)).toBe(200);
});

it('takes what grew meanwhile off a release, and never ends where more grows than is released', () => {
  const pace = new ReleasePace();
  pace.restart(0);
  pace.grew(6);
  pace.released(10, 1000);
  expect(pace.msUntil(8, 1000)).toBe(2000);
  const growing = new ReleasePace();
  growing.restart(0);
  growing.grew(10);
  growing.released(10, 1000);
  expect(growing.msUntil(1, 1000)).toBe(Number.POSITIVE_INFINITY);
});

it('follows a list of all releases, weighed one by one', () => {
  const event = fc.record({
    kind: fc.constantFrom('released', 'released', 'grew', 'restart'),
    size: fc.integer({ min: 0, max: 1000 }),
    after: fc.integer({ min: 0, max: 10_000 }),
  });
  fc.assert(
    fc.property(fc.array(event, { maxLength: 60 }), fc.integer({ min: 1, max: 5000 }), (events, size) => {
      const pace = new ReleasePace();
      const seen: { size: number; pause: number }[] = [];
      let now = 0;
      let since: number | null = null;
      let grown = 0;
      for (const one of events) {
        now += one.after;
        if (one.kind === 'grew') {
          pace.grew(one.size);
          grown += one.size;
          continue;
        }
        if (one.kind === 'restart') pace.restart(now);
        else {
          pace.released(one.size, now);
          if (since !== null) seen.push({ size: one.size - grown, pause: now - since });
        }
        since = now;
        grown = 0;
      }
      const mean = (of: (one: { size: number; pause: number }) => number): number =>
        seen.reduce((sum, one, at) => {
          const weight = Math.max(1 / 8, 1 / (at + 1));
          return sum * (1 - weight) + of(one) * weight;
        }, 0);
      const wait = pace.msUntil(size, now);
      if (seen.length === 0) expect(wait).toBeNull();
      else if (wait === Number.POSITIVE_INFINITY) expect(mean((one) => one.size)).toBeLessThan(1e-6);
      else {
        const pause = mean((one) => one.pause);
        const passed = now - (since ?? now);
        const variance = mean((one) => one.pause ** 2) - pause ** 2;
        const unsure = pause === 0 ? 0 : Math.min(pause, Math.max(0, variance) / pause);
        const next = Math.max(Math.abs(pause - passed), unsure);
        const expected = next + (Math.ceil(size / mean((one) => one.size)) - 1) * pause;
        // Sums in another order may put the quotient on the other side of a whole number.
        expect(Math.abs((wait ?? 0) - expected)).toBeLessThanOrEqual(pause + 1e-6 * (1 + expected));
      }
    }),
  );
});

it('is told to clients in whole seconds from 1 to 60', () => {
  expect(
    [null, 0, 1, 1000, 1001, 59_001, 60_000, 61_000, Number.POSITIVE_INFINITY].map(retryAfterSeconds),
  ).toEqual([1, 1, 1, 1, 2, 60, 60, 60, 60]);
});
