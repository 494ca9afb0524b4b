import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seededRng } from '../../plugin/index.ts';
import { RobustFit } from './robust-fit.ts';

const START = [0.03, 1.6e-6, 33];
const TRUTH = [0.0152, 8.4e-7, 16.5];

function unitsOf(tokens: number, cached = 0): number[] {
  return [tokens, tokens * (cached + tokens / 2), 1];
}
function timeOf(coefficients: readonly number[], units: readonly number[]): number {
  return units.reduce((sum, unit, part) => sum + unit * (coefficients[part] ?? 0), 0);
}
function expectedOf(fit: RobustFit, units: readonly number[]): number {
  return timeOf(
    [0, 1, 2].map((part) => fit.coefficient(part)),
    units,
  );
}
/** Prompts as in traces: hundreds to tens of thousands of tokens, some with much cached. */
function prompt(rng: ReturnType<typeof seededRng>): number[] {
  const tokens = Math.round(200 * Math.exp(rng.next() * 5));
  return unitsOf(tokens, rng.integer(2) * 4_096);
}

describe('a robust fit', () => {
  it('expects what it starts from until something is observed', () => {
    const fit = new RobustFit(START);
    expect(expectedOf(fit, unitsOf(1000))).toBeCloseTo(timeOf(START, unitsOf(1000)), 9);
    expect(fit.confidence).toBe(0);
    expect(fit.observations).toBe(0);
  });

  it.each([
    ['four times too fast', 1 / 4],
    ['four times too slow', 4],
  ])(
    'is within a tenth after 200 requests when it starts %s, waits that nobody knows of among them',
    (_, wrong) => {
      const rng = seededRng(5);
      const fit = new RobustFit(TRUTH.map((part) => part * wrong));
      for (let request = 0; request < 200; request += 1) {
        const units = prompt(rng);
        const noise = 0.95 + 0.1 * rng.next();
        // One in ten waited behind somebody else.
        const waited = rng.integer(10) === 0 ? 1 + 5 * rng.next() : 1;
        fit.observe(units, timeOf(TRUTH, units) * noise * waited);
      }
      for (const units of [
        unitsOf(500),
        unitsOf(4_000),
        unitsOf(16_000),
        unitsOf(2_000, 8_000),
        unitsOf(30_000),
      ]) {
        const ratio = expectedOf(fit, units) / timeOf(TRUTH, units);
        expect(ratio).toBeGreaterThan(0.9);
        expect(ratio).toBeLessThan(1.2);
      }
      expect(fit.confidence).toBeGreaterThan(0.5);
    },
  );

  it('tells parts apart that start wrong in opposite ways', () => {
    const rng = seededRng(6);
    const fit = new RobustFit([TRUTH[0]! / 4, TRUTH[1]! * 4, TRUTH[2]!]);
    for (let request = 0; request < 200; request += 1) {
      const units = prompt(rng);
      fit.observe(units, timeOf(TRUTH, units));
    }
    for (const units of [unitsOf(1_000), unitsOf(8_000), unitsOf(25_000)]) {
      expect(Math.abs(Math.log(expectedOf(fit, units) / timeOf(TRUTH, units)))).toBeLessThan(0.2);
    }
  });

  it('follows workers that become twice as slow', () => {
    const rng = seededRng(7);
    const fit = new RobustFit(TRUTH);
    const observe = (times: number, requests: number) => {
      for (let request = 0; request < requests; request += 1) {
        const units = prompt(rng);
        fit.observe(units, timeOf(TRUTH, units) * times);
      }
    };
    observe(1, 1000);
    observe(2, 1000);
    expect(expectedOf(fit, unitsOf(4_000)) / timeOf(TRUTH, unitsOf(4_000))).toBeCloseTo(2, 1);
  });

  it('keeps the quadratic part where all prompts are alike', () => {
    const fit = new RobustFit(TRUTH);
    for (let request = 0; request < 500; request += 1)
      fit.observe(unitsOf(4_000), 2 * timeOf(TRUTH, unitsOf(4_000)));
    expect(expectedOf(fit, unitsOf(4_000)) / timeOf(TRUTH, unitsOf(4_000))).toBeCloseTo(2, 1);
    expect(fit.coefficient(1) / TRUTH[1]!).toBeGreaterThan(1);
    expect(fit.coefficient(1) / TRUTH[1]!).toBeLessThan(4);
  });

  it.each([Number.NaN, 0, -1, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 3_600_001])(
    'takes %d ms for no observation',
    (ms) => {
      const fit = new RobustFit(START);
      expect(fit.observe(unitsOf(100), ms)).toBe(false);
      expect(fit.observations).toBe(0);
    },
  );

  it.each([
    [[Number.NaN, 1, 1]],
    [[-1, 1, 1]],
    [[0, 0, 0]],
    [[Number.POSITIVE_INFINITY, 1, 1]],
    [[1e300, 1e300, 1]],
  ])('takes no observation of %j units', (units) => {
    expect(new RobustFit(START).observe(units, 10)).toBe(false);
  });

  it('stays finite and within its bounds whatever it is told, and finds back', () => {
    const number = fc.oneof(
      fc.double(),
      fc.constantFrom(0, Number.NaN, Number.POSITIVE_INFINITY, -1, 1e-9, 3_600_000, 1e308),
      fc.double({ min: 1e-6, max: 1e7, noNaN: true }),
    );
    const one = fc.record({ tokens: number, attention: number, passes: number, ms: number });
    fc.assert(
      fc.property(fc.array(one, { maxLength: 300 }), fc.nat(), (told, seed) => {
        const fit = new RobustFit(START);
        for (const { tokens, attention, passes, ms } of told) {
          fit.observe([tokens, attention, passes], ms);
          for (const [part, start] of START.entries()) {
            const factor = fit.coefficient(part) / start;
            expect(factor).toBeGreaterThanOrEqual(1 / 64 / 4);
            expect(factor).toBeLessThanOrEqual(64 * 8);
          }
          expect(fit.error).toBeLessThanOrEqual(Math.log(64));
          expect(fit.confidence).toBeLessThan(1);
        }
        const rng = seededRng(seed);
        for (let request = 0; request < 2000; request += 1) {
          const units = prompt(rng);
          fit.observe(units, timeOf(TRUTH, units));
        }
        const ratio = expectedOf(fit, unitsOf(4_000)) / timeOf(TRUTH, unitsOf(4_000));
        expect(Math.abs(Math.log(ratio))).toBeLessThan(0.25);
      }),
      {
        numRuns: 60,
        // Times that are none are told in every run, whatever it draws.
        examples: [Number.NaN, Number.POSITIVE_INFINITY, 1e308].map((ms) => [
          [{ tokens: 1000, attention: 500_000, passes: 1, ms }],
          1,
        ]),
      },
    );
  });
});
