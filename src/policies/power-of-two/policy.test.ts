import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ManualClock, seededRng } from '../../plugin/index.ts';
import { testWorkerSelection } from '../../testing/index.ts';
import { powerOfTwo } from './policy.ts';

const ALONE = {
  cache: false,
  load: false,
  preferredTaint: false,
  occupancy: true,
  copies: false,
  copyLocations: false,
  inFlight: false,
  outputLength: false,
  phases: false,
  cachePressure: false,
  timing: false,
  lineage: false,
  residency: false,
};

const busy = (...requests: number[]) => requests.map((occupancy) => ({ occupancy }));

it('asks for occupancy alone, and takes the only candidate', async () => {
  const { decisions, needs } = await testWorkerSelection(powerOfTwo, { candidates: busy(9) });
  expect(decisions[0]).toMatchObject({ row: 0, by: 'policy' });
  expect(needs).toEqual(ALONE);
});

it('never compares a candidate with itself: the busiest of all is never taken', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 2, max: 9 }),
      fc.integer({ min: 1, max: 2 ** 31 }),
      async (n, seed) => {
        const candidates = busy(...Array.from({ length: n }, (_, row) => (row === n - 1 ? 1 : 0)));
        const { decisions } = await testWorkerSelection(powerOfTwo, { candidates, seed, decisions: 50 });
        expect(decisions.every(({ row }) => row !== n - 1)).toBe(true);
      },
    ),
    { numRuns: 50 },
  );
});

it('takes the less busy of the pair: of three, the middle one exactly where it meets the busiest', async () => {
  const decisions = 6000;
  const { decisions: made } = await testWorkerSelection(powerOfTwo, {
    candidates: busy(0, 1, 2),
    decisions,
  });
  const middle = made.filter(({ row }) => row === 1).length;
  // One of three pairs; 5 standard deviations of a binomial are 183.
  expect(Math.abs(middle - decisions / 3)).toBeLessThan(183);
  expect(made.every(({ row }) => row !== 2)).toBe(true);
});

it('is fair among equals: every candidate about as often', async () => {
  const decisions = 8000;
  const { decisions: made } = await testWorkerSelection(powerOfTwo, {
    candidates: busy(3, 3, 3, 3, 3, 3, 3, 3),
    decisions,
  });
  const counts = Array.from({ length: 8 }, (_, row) => made.filter((one) => one.row === row).length);
  const expected = decisions / 8;
  const chiSquare = counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
  // 7 degrees of freedom: above 29.9 in 1 of 10,000 fair runs; this seed is fixed.
  expect(chiSquare).toBeLessThan(29.9);
});

it('gives a tie to the first drawn, and draws exactly twice', () => {
  const { rng, drawn } = recordingRng();
  const policy = powerOfTwo.create({ rng, clock: new ManualClock() } as never);
  for (let at = 0; at < 200; at += 1) {
    drawn.length = 0;
    const table = { count: 5, occupancy: new Float64Array(5) };
    const row = policy.picker?.pick(table as never, {} as never);
    expect(drawn.map(([below]) => below)).toEqual([5, 4]);
    expect(row).toBe(drawn[0]?.[1]);
  }
});

function recordingRng() {
  const inner = seededRng(7);
  const drawn: [number, number][] = [];
  const integer = (below: number): number => {
    const value = inner.integer(below);
    drawn.push([below, value]);
    return value;
  };
  return { rng: { next: () => inner.next(), integer }, drawn };
}
