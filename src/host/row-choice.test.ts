import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seededRng } from '../plugin/index.ts';
import {
  breakTies,
  chooseLowest,
  chooseSampled,
  firstLowest,
  lowestRow,
  softmaxWeights,
} from './row-choice.ts';

const costsOf = (...values: number[]): Float64Array => Float64Array.from(values);
const probabilities = (costs: Float64Array, temperature: number): number[] => {
  const weights = new Float64Array(costs.length);
  const sum = softmaxWeights(costs, costs.length, temperature, weights);
  return [...weights].map((weight) => weight / sum);
};
const finiteCosts = fc
  .array(fc.double({ min: 0, max: 1e6, noNaN: true }), { minLength: 1, maxLength: 40 })
  .map((values) => Float64Array.from(values));

describe('choosing the lowest cost', () => {
  it('takes the lowest row, whatever the seed, when it is alone', () => {
    fc.assert(
      fc.property(finiteCosts, fc.nat(), (costs, seed) => {
        const choice = chooseLowest(costs, costs.length, seededRng(seed));
        const lowest = Math.min(...costs);
        expect(costs[choice.row]).toBe(lowest);
        expect(choice.ties).toBe([...costs].filter((cost) => cost === lowest).length);
      }),
    );
  });

  it('spreads ties uniformly: chi-square over 5 equal rows stays below the 0.1 % bound', () => {
    const costs = costsOf(3, 1, 1, 2, 1, 1, 1);
    const rng = seededRng(2024);
    const counts = new Map<number, number>();
    const draws = 10_000;
    for (let draw = 0; draw < draws; draw += 1) {
      const { row } = chooseLowest(costs, costs.length, rng);
      counts.set(row, (counts.get(row) ?? 0) + 1);
    }
    expect([...counts.keys()].sort()).toEqual([1, 2, 4, 5, 6]);
    const expected = draws / 5;
    const chiSquare = [...counts.values()].reduce(
      (sum, count) => sum + (count - expected) ** 2 / expected,
      0,
    );
    expect(chiSquare).toBeLessThan(18.5);
  });

  it('never lets NaN win, and answers no row when nothing is a number', () => {
    expect(chooseLowest(costsOf(Number.NaN, 5, Number.NaN), 3, seededRng(1)).row).toBe(1);
    expect(chooseLowest(costsOf(Number.NaN), 1, seededRng(1)).row).toBe(-1);
    expect(chooseLowest(costsOf(Number.POSITIVE_INFINITY), 1, seededRng(1)).row).toBe(-1);
  });

  it('chooses the same with the same draws when the lowest row is known beforehand', () => {
    const cost = fc.oneof(fc.nat(4), fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY));
    fc.assert(
      fc.property(fc.array(cost, { minLength: 1, maxLength: 12 }), fc.nat(), (values, seed) => {
        const costs = costsOf(...values);
        const [one, other] = [seededRng(seed), seededRng(seed)];
        const lowest = { row: 7, tied: true };
        lowestRow(costs, costs.length, lowest);
        const choice = breakTies(costs, costs.length, lowest, one);
        expect(choice).toEqual(chooseLowest(costs, costs.length, other));
        expect(one.next()).toBe(other.next());
        expect(lowest.row).toBe(values.indexOf(Math.min(...values.filter((value) => value < 5), 9)));
      }),
    );
  });

  it('reads only the rows it is told of', () => {
    expect(chooseLowest(costsOf(2, 1, 0), 2, seededRng(1)).row).toBe(1);
    expect(firstLowest(costsOf(2, 1, 1, 0), 3)).toEqual({ row: 1, ties: 2, draw: null });
  });
});

describe('sampling by temperature', () => {
  it('gives the published probabilities for costs 10, 20, 40 at 0.7', () => {
    const [first, second, third] = probabilities(costsOf(10, 20, 40), 0.7);
    expect(first).toBeCloseTo(0.5374, 5);
    expect(second).toBeCloseTo(0.33381, 5);
    expect(third).toBeCloseTo(0.12879, 5);
  });

  it('comes to the lowest row alone as the temperature falls to 0', () => {
    const wholeCosts = fc.array(fc.nat(1e6), { minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(wholeCosts, (values) => {
        const costs = Float64Array.from(values);
        const lowest = Math.min(...costs);
        const range = Math.max(...costs) - lowest;
        // What lies within a thousandth of the range is as good as the lowest, to a temperature that is not 0 yet.
        const near = [...costs].map((cost) => range === 0 || (cost - lowest) / range < 1e-3);
        const rest = (temperature: number): number =>
          probabilities(costs, temperature).reduce((sum, share, at) => (near[at] ? sum : sum + share), 0);
        expect(rest(1e-5)).toBeLessThan(1e-9);
        expect(rest(0.01)).toBeLessThanOrEqual(rest(0.1) + 1e-12);
      }),
    );
  });

  it('does not change when all costs are scaled, and is uniform over equal ones', () => {
    const costs = costsOf(3, 9, 4, 4);
    const scaled = costs.map((cost) => cost * 128);
    expect(probabilities(scaled, 0.3)).toEqual(probabilities(costs, 0.3));
    expect(probabilities(costsOf(7, 7, 7, 7), 0.1)).toEqual([0.25, 0.25, 0.25, 0.25]);
  });

  it('survives a range beyond the largest double', () => {
    const [low, middle, high] = probabilities(costsOf(-1.7e308, 0, 1.7e308), 1);
    expect(low! / middle!).toBeCloseTo(Math.exp(0.5), 10);
    expect(middle! / high!).toBeCloseTo(Math.exp(0.5), 10);
  });

  it.each([1e-3, 1e-9, Number.MIN_VALUE])('approaches the lowest cost at temperature %d', (temperature) => {
    fc.assert(
      fc.property(
        fc.shuffledSubarray([0, 10, 20, 30, 40, 50], { minLength: 2 }),
        fc.nat(),
        (values, seed) => {
          const costs = Float64Array.from(values);
          const scratch = new Float64Array(costs.length);
          const { row } = chooseSampled(costs, costs.length, temperature, seededRng(seed), scratch);
          expect(costs[row]).toBe(Math.min(...values));
        },
      ),
    );
  });

  it('never picks a row whose weight is 0, not even by a draw of exactly 0', () => {
    const zero = { next: () => 0, integer: () => 0 };
    const choice = chooseSampled(costsOf(100, 0), 2, 1e-6, zero, new Float64Array(2));
    expect(choice).toEqual({ row: 1, ties: 1, draw: 0 });
  });

  it('draws rows as often as their probabilities say', () => {
    const costs = costsOf(10, 20, 40);
    const rng = seededRng(99);
    const scratch = new Float64Array(3);
    const counts = [0, 0, 0];
    for (let at = 0; at < 10_000; at += 1) counts[chooseSampled(costs, 3, 0.7, rng, scratch).row]! += 1;
    const expected = [5374, 3338.1, 1287.9];
    const chiSquare = counts.reduce(
      (sum, count, row) => sum + (count - expected[row]!) ** 2 / expected[row]!,
      0,
    );
    expect(chiSquare).toBeLessThan(13.8);
  });
});
