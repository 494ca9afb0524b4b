// The open loop of the Mooncake benchmark, on a clock that moves as told.
import { describe, expect, it } from 'vitest';
import { behind, dueTimes, openPass, sweepRates } from '../bench/mooncake/open-loop.ts';
import { operationsOf } from '../bench/mooncake/operations.ts';

describe('the open loop', () => {
  const prompts = [1, 2, 3].map((id) => Uint32Array.of(id));
  const work = operationsOf(
    { arrivals: [0, 1000, 2000], prompts },
    { workers: 3, duplicates: 1, blockSize: 16, capacity: 400, seed: 7, named: true },
  );

  it('spreads operations over as long as the rate takes, as the trace has them', () => {
    expect([...dueTimes([0, 0, 500, 1000], 8)]).toEqual([0, 0, 250, 500]);
    expect([...dueTimes([5, 5, 5, 5], 8)]).toEqual([0, 125, 250, 375]);
  });

  it('times look-ups from when they were due, however late the one before was done', () => {
    let now = 100;
    // Six operations at 1,000 per second: three look-ups, due at 0, 3 and 6 ms. Reading the clock takes next to nothing.
    const clock = (): number => {
      now += 1 / 1024;
      return now;
    };
    const took: number[] = [8, 0, 1, 0, 1, 0];
    const side = {
      apply: (at: number): number => {
        now += took[at]!;
        return 0;
      },
    };
    const pass = openPass(side, work, 1000, clock);
    // Answered at 8, 9 and 10: 8, 6 and 4 ms late.
    expect(pass.p50 / 1000).toBeCloseTo(6, 1);
    expect(pass.p99 / 1000).toBeCloseTo(8, 1);
    expect(pass.callP99 / 1000).toBeCloseTo(8, 1);
    expect(pass.achieved).toBeCloseTo(600, -1);
    expect(behind(1000, pass)).toBe(true);
    expect(behind(600, pass)).toBe(false);
  });

  it('does nothing before it is due', () => {
    let now = 0;
    const at: number[] = [];
    const side = {
      apply: (): number => {
        at.push(now);
        return 0;
      },
    };
    const pass = openPass(side, work, 1000, () => {
      now += 0.25;
      return now;
    });
    expect(at.map((ms, place) => ms >= [0, 0, 3, 3, 6, 6][place]!)).toEqual(Array(6).fill(true));
    expect(pass.callP99).toBe(250);
  });

  it('sweeps from a rate at which a pass takes five seconds at most', () => {
    expect(sweepRates(36_000).slice(0, 3)).toEqual([10_000, 20_000, 40_000]);
    expect(sweepRates(120_000)[0]).toBe(40_000);
  });
});
