import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Distribution } from './distribution.ts';

describe('Distribution', () => {
  it('gives the nearest-rank percentile of the sorted values, exact to 0.007 %, and an exact mean', () => {
    const value = fc.oneof(fc.constant(0), fc.double({ min: 0.001, max: 1e7, noNaN: true }));
    fc.assert(
      fc.property(
        fc.array(value, { minLength: 1, maxLength: 200 }),
        fc.integer({ min: 1, max: 100 }),
        (values, p) => {
          const distribution = new Distribution();
          for (const one of values) distribution.add(one);
          const sorted = values.toSorted((a, b) => a - b);
          const exact = sorted[Math.max(1, Math.ceil((p * sorted.length) / 100)) - 1]!;
          expect(Math.abs(distribution.percentile(p)! - exact)).toBeLessThanOrEqual(exact * 0.00007);
          const sum = values.reduce((total, one) => total + one, 0);
          expect(distribution.summary().mean).toBeCloseTo(sum / values.length, 2);
          expect(distribution.count).toBe(values.length);
        },
      ),
    );
  });

  it('is null without values and never above the largest', () => {
    const distribution = new Distribution();
    expect(distribution.percentile(50)).toBeNull();
    expect(distribution.summary()).toEqual({ mean: null, p50: null, p90: null, p99: null });
    distribution.add(2 ** 40);
    distribution.add(5);
    expect(distribution.percentile(100)).toBeGreaterThan(2 ** 31);
    expect(distribution.percentile(50)).toBeLessThanOrEqual(5.0004);
  });
});
