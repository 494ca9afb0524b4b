import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RetryBudget } from './retry-budget.ts';

describe('the retry budget', () => {
  it('lets a dead fleet be asked little more often than it gets requests', () => {
    const budget = new RetryBudget(() => 0.2);
    let retries = 0;
    for (let request = 0; request < 10_000; request += 1) {
      budget.sent();
      for (let retry = 0; retry < 2; retry += 1) if (budget.take()) retries += 1;
    }
    expect(retries).toBeGreaterThanOrEqual(2000);
    expect(retries).toBeLessThanOrEqual(2000 + 256);
  });

  it('never gives more than was saved and earned, and gives all of it', () => {
    fc.assert(
      fc.property(
        fc.array(fc.boolean(), { maxLength: 2000 }),
        fc.constantFrom(0, 0.25, 0.5, 1),
        (calls, ratio) => {
          const budget = new RetryBudget(() => ratio);
          let saved = 256;
          for (const arrives of calls) {
            if (arrives) {
              budget.sent();
              saved = Math.min(256, saved + ratio);
            } else {
              const left = ratio > 0 && saved >= 1;
              expect(budget.take()).toBe(left);
              if (left) saved -= 1;
            }
          }
        },
      ),
    );
  });
});
