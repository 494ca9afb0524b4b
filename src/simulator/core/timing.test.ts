import { describe, expect, it } from 'vitest';
import { decodeMs, prefillMs } from './timing.ts';

describe('timing polynomials', () => {
  it('give the published examples of prefill time', () => {
    const alone = (tokens: number): number =>
      Math.round(prefillMs({ requests: 1, totalIsl: tokens, totalPrefix: 0 }) * 10) / 10;
    expect([512, 2048, 8192].map(alone)).toEqual([24.4, 49.4, 169.1]);
  });

  it('count new tokens as whole-number means over the batch', () => {
    // Means 1,001.5 → 1001 and 100.5 → 100, so 2 × 901 tokens.
    const tokens = 2 * 901;
    expect(prefillMs({ requests: 2, totalIsl: 2003, totalPrefix: 201 })).toBe(
      4.209989e-7 * tokens * tokens + 1.518344e-2 * tokens + 16.50142,
    );
  });

  it('charge nothing for a batch without prompt work', () => {
    expect(prefillMs({ requests: 0, totalIsl: 0, totalPrefix: 0 })).toBe(0);
    expect(prefillMs({ requests: 2, totalIsl: 101, totalPrefix: 100 })).toBe(0);
  });

  it('give decode times from an empty to a full pool, capped at full, and an unlimited pool counts as empty', () => {
    expect(decodeMs(0, 100)).toBe(5.74);
    expect(decodeMs(100, 100)).toBeCloseTo(34.01, 9);
    expect(decodeMs(150, 100)).toBe(decodeMs(100, 100));
    expect(decodeMs(1_000_000, null)).toBe(5.74);
  });
});
