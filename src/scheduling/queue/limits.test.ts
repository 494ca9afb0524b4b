// Limits of what waits.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { reachedLimit } from './limits.ts';
import { queueClass } from './queue.fixtures.ts';

const stats = (requests: number, rawIslTokens = 0, cachedTokens = 0) => ({
  requests,
  rawIslTokens,
  cachedTokens,
});

it('compares before it adds, so that the request that crosses a limit still gets in', () => {
  const limited = queueClass('a', { rawIslLimit: 100 });
  expect(reachedLimit(limited, stats(1, 99), 1)).toBeNull();
  expect(reachedLimit(limited, stats(2, 5000), 1)).toEqual({
    kind: 'raw_isl_tokens',
    current: 5000,
    limit: 100,
  });
});

it('lets nobody wait under a limit of 0, nor without workers', () => {
  expect(reachedLimit(queueClass('a', { requestLimit: 0 }), stats(0), 8)?.limit).toBe(0);
  expect(reachedLimit(queueClass('a', { requestLimit: 5 }), stats(0), 0)?.limit).toBe(0);
});

it('is checked for requests, then prompt tokens, then cached ones, each per worker', () => {
  fc.assert(
    fc.property(
      fc.record({
        requestLimit: fc.option(fc.nat(5)),
        rawIslLimit: fc.option(fc.nat(500)),
        cachedLimit: fc.option(fc.nat(500)),
      }),
      fc.nat(20),
      fc.nat(2000),
      fc.nat(2000),
      fc.nat(4),
      (limits, requests, raw, cached, workers) => {
        const found = reachedLimit(queueClass('a', limits), stats(requests, raw, cached), workers);
        const first = (
          [
            ['requests', requests, limits.requestLimit],
            ['raw_isl_tokens', raw, limits.rawIslLimit],
            ['cached_tokens', cached, limits.cachedLimit],
          ] as const
        ).find(([, current, limit]) => limit !== null && current >= limit * workers);
        expect(found?.kind ?? null).toBe(first?.[0] ?? null);
        if (found !== null) expect(found.limit).toBe(Number(first?.[2]) * workers);
      },
    ),
  );
});
