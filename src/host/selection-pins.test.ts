// Requests that must go to one worker: by pin, or by an affinity the policy is exclusive about.
import { describe, expect, it } from 'vitest';
import {
  defineWorkerSelectionPolicy,
  pickLowestCost,
  pickWorker,
  type SelectionRequest,
  scoreEachWorker,
} from '../plugin/index.ts';
import { type TrialCandidate, testWorkerSelection } from '../testing/index.ts';

const byRequests = scoreEachWorker({ inputs: ['load'], cost: ({ load }) => load.activeRequests });

describe('pins', () => {
  const never = pickWorker({
    pick: () => {
      throw new Error('the picker must not be asked');
    },
  });
  const ranks: TrialCandidate[] = [
    { workerId: 1n, rank: 0, load: { activeRequests: 0 } },
    { workerId: 2n, rank: 0, load: { activeRequests: 5 } },
    { workerId: 2n, rank: 1, load: { activeRequests: 4 } },
    { workerId: 2n, rank: 2, load: { activeRequests: 4 } },
  ];
  const pinned = defineWorkerSelectionPolicy({
    type: 'mine',
    create: () => ({ scorers: [byRequests], picker: never }),
  });
  const decide = async (request: Partial<SelectionRequest>) =>
    (await testWorkerSelection(pinned, { candidates: ranks, request })).decisions[0];
  const pin = (workerId: bigint, rank: number | null) => ({ pinnedWorker: { workerId, rank } });

  it('decide without the picker', async () => {
    expect(await decide(pin(2n, 0))).toMatchObject({
      row: 1,
      by: 'pinned',
      costs: [Number.NaN, 5, Number.NaN, Number.NaN],
    });
  });

  it('that leave the rank open take its cheapest rank, the first of equals', async () => {
    expect(await decide(pin(2n, null))).toMatchObject({ row: 2, by: 'pinned' });
  });

  it('to a worker that is not eligible fail', async () => {
    await expect(decide(pin(9n, null))).rejects.toMatchObject({
      code: 'PM_SELECTION_NO_ENDPOINTS',
      message: 'no worker for role aggregated: the pinned worker is not among the eligible ones',
    });
  });

  it('by affinity hold only for policies that are exclusive about it, and only while the target is there', async () => {
    const choose = async (workerId: bigint, exclusiveAffinity: boolean) => {
      const definition = defineWorkerSelectionPolicy({
        type: 'mine',
        exclusiveAffinity,
        create: ({ rng }) => ({ scorers: [byRequests], picker: pickLowestCost(rng) }),
      });
      const request = { affinityTarget: { workerId, rank: null } };
      return (await testWorkerSelection(definition, { candidates: ranks, request })).decisions[0].row;
    };
    expect(await choose(2n, true)).toBe(2);
    expect(await choose(2n, false)).toBe(0);
    expect(await choose(9n, true)).toBe(0);
  });
});
