import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { sumCosts } from './cost-sums.ts';
import { firstLowest } from './row-choice.ts';

/** What it must come to: added one after the other, looked at one after the other. */
function naively(parts: readonly Float64Array[], count: number) {
  const totals = new Float64Array(count);
  for (const part of parts) for (let row = 0; row < count; row += 1) totals[row]! += part[row]!;
  let tied = false;
  let least = Number.POSITIVE_INFINITY;
  for (const total of totals) {
    tied ||= total === least;
    least = Math.min(least, total);
  }
  return { totals, finite: totals.every(Number.isFinite), lowest: { ...firstLowest(totals, count), tied } };
}

const cost = fc.oneof(
  { weight: 8, arbitrary: fc.integer({ min: -3, max: 3 }) },
  { weight: 4, arbitrary: fc.double({ noNaN: true, noDefaultInfinity: true }) },
  { weight: 1, arbitrary: fc.constantFrom(-0, Number.NaN, Infinity, -Infinity, 1.7e308, -1.7e308) },
);
const columns = fc
  .tuple(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 0, max: 6 }))
  .chain(([count, parts]) =>
    fc
      .array(fc.array(cost, { minLength: count, maxLength: count }), { minLength: parts, maxLength: parts })
      .map((rows) => ({ count, parts: rows.map((row) => Float64Array.from(row)) })),
  );

describe('sums of costs', () => {
  it('are those of adding one after the other, and the lowest is that of looking through them', () => {
    fc.assert(
      fc.property(columns, ({ count, parts }) => {
        const totals = new Float64Array(count + 2).fill(7);
        const lowest = { row: -1, ties: 0, tied: false };
        const finite = sumCosts(parts, new Float64Array(count + 5), count, totals, lowest);
        const expected = naively(parts, count);
        expect(finite).toBe(expected.finite);
        expect([...totals.subarray(count)]).toEqual([7, 7]);
        if (!finite) return;
        expect([...totals.subarray(0, count)].map((total) => Object.is(total, -0))).not.toContain(true);
        expect([...totals.subarray(0, count)]).toEqual([...expected.totals]);
        const { row, ties, tied } = expected.lowest;
        expect(lowest).toEqual({ row, ties, tied });
      }),
      { numRuns: 2000 },
    );
  });
});
