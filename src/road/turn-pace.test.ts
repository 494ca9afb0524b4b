// When turns come, by the pace of those that came.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TurnPace } from './turn-pace.ts';

/** Workers that compute 1 token a ms, one prompt after the other, from the same moment on; returns when each turn came. */
function running(workers: number, sizes: readonly number[]) {
  const pace = new TurnPace();
  pace.restart(0);
  const free = Array.from({ length: workers }, () => 0);
  const left: { until: number; size: number }[] = [];
  let now = 0;
  for (const size of sizes) {
    const first = free.indexOf(Math.min(...free));
    now = free[first]!;
    pace.turn(size, now);
    free[first] = now + size;
    left.push({ until: now + size, size });
  }
  const inFlight = left.filter(({ until }) => until > now).reduce((sum, { size }) => sum + size, 0);
  return { pace, free, now, inFlight };
}

describe('the wait for a turn', () => {
  it('is not known before anything was measured, and endless where the forecast is', () => {
    const pace = new TurnPace();
    expect(pace.msUntil({ work: [5], times: 1 }, 5, 0)).toBeNull();
    pace.restart(0);
    pace.turn(5, 10);
    expect(pace.msUntil({ work: [], times: Number.POSITIVE_INFINITY }, 5, 10)).toBe(Number.POSITIVE_INFINITY);
  });

  it('comes true where workers are even', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 }),
        fc.integer({ min: 50, max: 500 }),
        fc.integer({ min: 1, max: 12 }),
        fc.double({ min: 0, max: 0.9, noNaN: true }),
        (workers, size, turns, part) => {
          // As many rounds as the means need to forget that all began at once.
          const { pace, free, now, inFlight } = running(
            workers,
            Array.from({ length: workers * 60 }, () => size),
          );
          const passed = Math.floor(part * (Math.min(...free) - now));
          const work = Array.from({ length: turns }, () => size);
          let at = now;
          for (const one of work) {
            const first = free.indexOf(Math.min(...free));
            at = free[first]!;
            free[first] = at + one;
          }
          const had = at - now - passed;
          const told = pace.msUntil({ work, times: 1 }, inFlight, now + passed) ?? -1;
          // All pauses but one of a round are 0, so the mean of the latest sixteen moves with the place in the round.
          expect(Math.abs(told - had)).toBeLessThan(0.25 * (had + passed));
        },
      ),
    );
  });

  it('is now where the next turn is overdue, and as often as long where the forecast was cut short', () => {
    const pace = new TurnPace();
    pace.restart(0);
    for (let at = 0; at < 5; at += 1) pace.turn(100, at * 100);
    expect(pace.msUntil({ work: [100], times: 1 }, 100, 2000)).toBe(0);
    const once = pace.msUntil({ work: [100, 100, 100], times: 1 }, 100, 400) ?? 0;
    expect(pace.msUntil({ work: [100, 100, 100], times: 3 }, 100, 400)).toBeCloseTo(3 * once);
  });

  it('is not stretched by pauses in which nobody waited', () => {
    const pace = new TurnPace();
    pace.restart(0);
    for (let at = 1; at <= 4; at += 1) pace.turn(100, at * 100);
    const before = pace.msUntil({ work: [100], times: 1 }, 100, 400);
    pace.restart(null);
    pace.restart(1_000_000);
    pace.turn(100, 1_000_100);
    expect(pace.msUntil({ work: [100], times: 1 }, 100, 1_000_100)).toBeCloseTo(before ?? -1);
  });
});
