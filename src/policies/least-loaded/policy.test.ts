import { expect, it } from 'vitest';
import { testWorkerSelection } from '../../testing/index.ts';
import { leastLoaded } from './policy.ts';

it('takes the fewest requests in flight and asks for occupancy alone', async () => {
  const candidates = [{ occupancy: 3 }, { occupancy: 1 }, { occupancy: 2 }];
  const { decisions, needs } = await testWorkerSelection(leastLoaded, { candidates });
  expect(decisions[0]).toMatchObject({ row: 1, ties: 1, costs: [3, 1, 2] });
  expect(needs).toEqual({
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
  });
});

it('reaches every one of several equals', async () => {
  const candidates = [{ occupancy: 1 }, { occupancy: 0 }, { occupancy: 0 }, { occupancy: 0 }];
  const { decisions } = await testWorkerSelection(leastLoaded, { candidates, decisions: 100 });
  expect(new Set(decisions.map(({ row }) => row))).toEqual(new Set([1, 2, 3]));
  expect(decisions[0].ties).toBe(3);
});
