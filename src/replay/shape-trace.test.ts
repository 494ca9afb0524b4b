import { describe, expect, it } from 'vitest';
import { promptMs } from '../simulator/index.ts';
import { differentBlocks, largestRequest, offeredLoad, spreadArrivals, withoutFirst } from './shape-trace.ts';
import type { Trace } from './trace.ts';
import { traceOfRows } from './trace-rows.ts';

function traceAt(times: readonly number[]): Trace {
  return traceOfRows(
    'made',
    times.map((timestamp, row) => ({
      timestamp,
      input_length: 1000 + row,
      output_length: 10 * (row + 1),
      hash_ids: [0, row + 1],
      session_id: `s${row}`,
    })),
  );
}

describe('withoutFirst', () => {
  it('leaves a trace as if it had begun there', () => {
    const whole = traceAt([0, 50, 70, 70, 90]);
    const part = withoutFirst(whole, 2);
    expect(part).toEqual({
      ...part,
      requests: 3,
      arrivals: Float64Array.of(0, 0, 20),
      inputLengths: Uint32Array.of(1002, 1003, 1004),
      outputLengths: Uint32Array.of(30, 40, 50),
      idOffsets: Uint32Array.of(0, 2, 4, 6),
      hashIds: Uint32Array.of(0, 3, 0, 4, 0, 5),
    });
    expect([...part.sessions].map(([row, { sessionId }]) => [row, sessionId])).toEqual([
      [0, 's2'],
      [1, 's3'],
      [2, 's4'],
    ]);
    expect(withoutFirst(whole, 0)).toBe(whole);
  });
});

describe('spreadArrivals', () => {
  const trace = traceAt([0, 0, 0, 300, 300, 1000, 1000]);

  it('puts rows of one time before the next time, in order and never together, and leaves the last where they are', () => {
    for (let seed = 1; seed <= 200; seed += 1) {
      const { arrivals } = spreadArrivals(trace, seed);
      for (let row = 0; row < 3; row += 1) expect(arrivals[row]).toBeLessThan(300);
      for (let row = 3; row < 5; row += 1) {
        expect(arrivals[row]).toBeGreaterThanOrEqual(300);
        expect(arrivals[row]).toBeLessThan(1000);
      }
      expect(arrivals.slice(5)).toEqual(Float64Array.of(1000, 1000));
      expect([...arrivals]).toEqual([...arrivals].sort((a, b) => a - b));
      expect(new Set(arrivals.slice(0, 5)).size).toBe(5);
    }
    expect(trace.arrivals).toEqual(Float64Array.of(0, 0, 0, 300, 300, 1000, 1000));
  });

  it('is evenly distributed, the same for a seed and another for another', () => {
    const draws = Array.from({ length: 400 }, (_, seed) => spreadArrivals(trace, seed + 1).arrivals);
    const mean = draws.reduce((sum, arrivals) => sum + arrivals[3]! + arrivals[4]!, 0) / (2 * draws.length);
    expect(Math.abs(mean - 650)).toBeLessThan(30);
    expect(spreadArrivals(trace, 7).arrivals).toEqual(draws[6]);
    expect(draws[5]).not.toEqual(draws[6]);
  });
});

describe('sizes of a trace', () => {
  const trace = traceAt([0, 100, 2000]);

  it('counts blocks by their ids, and the largest request with its answer', () => {
    expect(differentBlocks(trace)).toBe(4);
    expect(largestRequest(trace, 512)).toBe(3);
    expect(largestRequest(trace, 16)).toBe(Math.ceil(1032 / 16));
  });

  it('measures load as time of all prompts over the time of all workers', () => {
    const work = [1000, 1001, 1002].reduce((sum, length) => sum + promptMs('8b', length, 8192), 0);
    expect(offeredLoad(trace, 2, '8b', 8192)).toBeCloseTo(work / 4000, 12);
    expect(offeredLoad(trace, 4, '8b', 8192)).toBeCloseTo(work / 8000, 12);
    expect(offeredLoad(traceAt([5, 5]), 2, '8b', 8192)).toBeNaN();
  });
});
