import fc from 'fast-check';
import { expect, test } from 'vitest';
import { POOL_MASK, WordPool } from './word-pool.ts';

test('runs never overlap and keep their words while the pool grows', () => {
  const size = fc.oneof(
    fc.integer({ min: 1, max: 9 }),
    fc.integer({ min: 1, max: 700 }),
    fc.constantFrom(30_000, 65_536),
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.boolean(), size), { maxLength: 120 }), (steps) => {
      const pool = new WordPool();
      const live = new Map<number, { n: number; mark: number }>();
      let mark = 1;
      for (const [take, n] of steps) {
        if (take || live.size === 0) {
          const offset = pool.take(n);
          const at = offset & POOL_MASK;
          pool.wordsOf(offset).fill(mark, at, at + n);
          live.set(offset, { n, mark: mark++ });
        } else {
          const offset = [...live.keys()][n % live.size]!;
          pool.give(offset, live.get(offset)!.n);
          live.delete(offset);
        }
      }
      for (const [offset, run] of live) {
        const at = offset & POOL_MASK;
        const words = pool.wordsOf(offset).subarray(at, at + run.n);
        expect(words.length).toBe(run.n);
        expect(words.every((w) => w === run.mark)).toBe(true);
      }
    }),
    { numRuns: 100 },
  );
});

test('growing copies one segment at most', () => {
  const pool = new WordPool();
  let before = pool.bytes;
  for (let n = 0; n < 3000; n++) {
    pool.take(200);
    expect(pool.bytes - before).toBeLessThanOrEqual(4 * 65_536);
    before = pool.bytes;
  }
  expect(pool.bytes).toBeLessThan(4 * 3000 * 256 * 1.1 + 4 * 65_536);
});

test('a run given back serves the next run of its size, up to 65,536 words', () => {
  const pool = new WordPool();
  for (const n of [1, 2, 3, 4, 5, 1000, 65_536]) {
    const offset = pool.take(n);
    pool.give(offset, n);
    const bytes = pool.bytes;
    expect(pool.take(n)).toBe(offset);
    expect(pool.bytes).toBe(bytes);
    pool.give(offset, n);
  }
});
