import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { expectedCopyMs } from './kv-copy.ts';

describe('the expected time of a copy', () => {
  it('is what is stated where nothing was measured, and else between that and what was measured', () => {
    expect(expectedCopyMs(null, 8, 5)).toBe(5);
    const link = { latencyMs: 4, blockMs: 2, confidence: 0.5 };
    expect(expectedCopyMs(link, 8, 5)).toBeCloseTo(10, 9);
    expect(expectedCopyMs({ ...link, confidence: 0 }, 8, 5)).toBe(5);
  });

  it('is a number whatever is stated, nothing included', () => {
    const link = fc.record({
      latencyMs: fc.double({ min: 1e-6, max: 1e6, noNaN: true }),
      blockMs: fc.double({ min: 0, max: 1e6, noNaN: true }),
      confidence: fc.constantFrom(0, 1e-300, 0.5, 0.999),
    });
    const stated = fc.constantFrom(0, 1e-9, 1, 1e9, 1e12);
    fc.assert(
      fc.property(link, fc.integer({ min: 1, max: 1e6 }), stated, (measured, blocks, statedMs) => {
        const ms = expectedCopyMs(measured, blocks, statedMs);
        expect(Number.isFinite(ms) && ms >= 0).toBe(true);
      }),
    );
    expect(expectedCopyMs({ latencyMs: 4, blockMs: 2, confidence: 0.5 }, 8, 0)).toBe(0);
  });
});
