import { describe, expect, it } from 'vitest';
import { decodeMs, passTimes, prefillMs, promptMs } from './timing.ts';

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

describe('timing profiles', () => {
  const batchOf = (tokens: number, before: number) => ({
    requests: 1,
    totalIsl: before + tokens,
    totalPrefix: before,
    attended: tokens * (before + tokens / 2),
  });

  it('charge tokens, attention over what was there before, and the pass', () => {
    const times = passTimes('8b');
    expect(times?.prefill(batchOf(1000, 0))).toBeCloseTo(0.01518 * 1000 + 8.42e-7 * 500_000 + 16.5, 9);
    expect(times?.prefill(batchOf(1000, 20_000))).toBeCloseTo(
      0.01518 * 1000 + 8.42e-7 * 1000 * 20_500 + 16.5,
      9,
    );
    expect(passTimes('smg')?.prefill(batchOf(1000, 20_000))).toBe(125);
    for (const name of ['8b', '70b', 'smg'] as const) {
      expect(passTimes(name)?.prefill({ requests: 0, totalIsl: 0, totalPrefix: 0, attended: 0 })).toBe(0);
    }
  });

  it('decode by context and not by the size of the pool; 8b as the mocker does with a pool of 2^20 tokens', () => {
    const at = (name: '8b' | '70b' | 'smg', contextTokens: number): number =>
      passTimes(name)!.decode({ activeBlocks: 1, totalBlocks: 1, contextTokens });
    for (const share of [0, 0.25, 1]) expect(at('8b', share * 2 ** 20)).toBe(decodeMs(share * 100, 100));
    expect(at('8b', 2 ** 22)).toBe(at('8b', 2 ** 20));
    expect(at('70b', 2 ** 19)).toBeCloseTo(1.8 * at('8b', 2 ** 19), 9);
    expect(at('smg', 2 ** 19)).toBe(16.5);
  });

  it('default and none are as they were', () => {
    expect(passTimes('none')).toBeNull();
    expect(passTimes('default')?.prefill(batchOf(512, 9000))).toBe(prefillMs(batchOf(512, 9000)));
    expect(passTimes('default')?.decode({ activeBlocks: 5, totalBlocks: 10, contextTokens: 9 })).toBe(
      decodeMs(5, 10),
    );
  });

  it('a prompt alone takes the passes that its tokens need', () => {
    const times = passTimes('8b')!;
    const passes = [batchOf(8192, 0), batchOf(8192, 8192), batchOf(616, 16_384)];
    expect(promptMs('8b', 17_000, 8192)).toBeCloseTo(
      passes.reduce((sum, pass) => sum + times.prefill(pass), 0),
      9,
    );
    expect(promptMs('none', 17_000, 8192)).toBe(0);
  });
});
