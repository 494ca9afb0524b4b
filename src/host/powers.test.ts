import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { powerOfTwo, STEPS } from './powers.ts';

describe('a power of two by steps', () => {
  it('is 2^(steps / 256) within 1e-12', () => {
    fc.assert(
      fc.property(fc.double({ min: -256_000, max: 0, noNaN: true }), (steps) => {
        expect(Math.abs(powerOfTwo(steps) / 2 ** (steps / 256) - 1)).toBeLessThan(1e-12);
      }),
      { numRuns: 2000 },
    );
  });

  it('is e^x when counted in its steps', () => {
    fc.assert(
      fc.property(fc.double({ min: -690, max: 0, noNaN: true }), (x) => {
        expect(Math.abs(powerOfTwo(x * STEPS) / Math.exp(x) - 1)).toBeLessThan(2e-12);
      }),
    );
  });

  it('is exactly 1 without steps and exact where they are whole halvings', () => {
    expect([0, -0, -256, -512, -25_600].map(powerOfTwo)).toEqual([1, 1, 0.5, 0.25, 2 ** -100]);
  });

  it('is 0 where it would hardly be a number any more', () => {
    expect([-256_001, -1e300, Number.NEGATIVE_INFINITY].map(powerOfTwo)).toEqual([0, 0, 0]);
  });
});
