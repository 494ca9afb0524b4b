// Requests that must go to one worker: by pin, or by an affinity the policy is exclusive about.
import { describe, expect, it } from 'vitest';
import {
  defineWorkerSelectionPolicy,
  filterWorkers,
  pickLowestCost,
  pickWorker,
  type SelectionRequest,
  scoreEachWorker,
  scoreWorkers,
} from '../plugin/index.ts';
import { dynamoDefaultCostFn, kvcr } from '../policies/index.ts';
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
});

describe('an affinity target', () => {
  const ranks: TrialCandidate[] = [
    { workerId: 1n, rank: 0, load: { activeRequests: 0 } },
    { workerId: 2n, rank: 0, load: { activeRequests: 5 } },
    { workerId: 2n, rank: 1, load: { activeRequests: 4 } },
    { workerId: 3n, rank: 0, load: { activeRequests: 9 } },
  ];
  const target = (workerId: bigint, rank: number | null = null) => ({ affinityTarget: { workerId, rank } });

  /** A policy that takes down what its parts are shown. */
  function watched(exclusiveAffinity: boolean, keep: (workerId: bigint) => boolean = () => true) {
    const seen: unknown[] = [];
    const definition = defineWorkerSelectionPolicy({
      type: 'mine',
      exclusiveAffinity,
      create: ({ rng }) => ({
        filters: [
          filterWorkers({
            keep({ workerId, rank }, { pinnedWorker }) {
              seen.push(`filter ${workerId}/${rank} ${pinnedWorker === null ? 'free' : 'pinned'}`);
              return keep(workerId);
            },
          }),
        ],
        scorers: [
          scoreWorkers({
            inputs: ['load'],
            score({ count, load }, costs, request) {
              const toward = request.affinityTarget?.workerId ?? 'nobody';
              seen.push(`score ${count} toward ${toward}`);
              for (let row = 0; row < count; row += 1) costs[row] = load.activeRequests[row]!;
            },
          }),
        ],
        picker: pickLowestCost(rng),
      }),
    });
    const decide = async (request: Partial<SelectionRequest>) =>
      (await testWorkerSelection(definition, { candidates: ranks, request })).decisions[0];
    return { seen, decide };
  }

  it('narrows the candidates before anything else sees them, for a policy that is exclusive about it', async () => {
    const { seen, decide } = watched(true);
    expect(await decide(target(2n))).toMatchObject({
      row: 2,
      by: 'pinned',
      costs: [Number.NaN, 5, 4, Number.NaN],
    });
    expect(seen).toEqual(['filter 2/0 pinned', 'filter 2/1 pinned', 'score 2 toward 2']);
    expect((await decide(target(2n, 0))).row).toBe(1);
  });

  it('is advice to any other policy', async () => {
    const { seen, decide } = watched(false);
    expect(await decide(target(2n))).toMatchObject({ row: 0, by: 'policy', costs: [0, 5, 4, 9] });
    expect(seen).toEqual([
      ...ranks.map((one) => `filter ${one.workerId}/${one.rank} free`),
      'score 4 toward 2',
    ]);
  });

  it('that is not eligible, as a worker or as a rank, leaves the candidates as they are', async () => {
    for (const gone of [target(9n), target(2n, 7)]) {
      const { seen, decide } = watched(true);
      expect(await decide(gone)).toMatchObject({ row: 0, by: 'policy', costs: [0, 5, 4, 9] });
      expect(seen).toHaveLength(ranks.length + 1);
    }
  });

  it('that the filters drop is nobody: the request does not go elsewhere', async () => {
    await expect(watched(true, (id) => id !== 2n).decide(target(2n))).rejects.toMatchObject({
      code: 'PM_SELECTION_ALL_FILTERED',
      message:
        'the filters of worker-selection policy mine dropped all 2 eligible workers of role aggregated',
    });
  });

  it('gives way to a pin', async () => {
    const decision = await watched(true).decide({
      ...target(2n),
      pinnedWorker: { workerId: 3n, rank: null },
    });
    expect(decision).toMatchObject({ row: 3, by: 'pinned' });
  });

  it.each([dynamoDefaultCostFn, kvcr])('holds the default cost and kvcr: $type', async (definition) => {
    const decide = async (request: Partial<SelectionRequest>) =>
      (await testWorkerSelection(definition, { candidates: ranks, request })).decisions[0];
    expect(await decide(target(3n))).toMatchObject({ row: 3, by: 'pinned' });
    const without = await decide({});
    expect(without.by).toBe('lowest_cost');
    expect(await decide(target(9n))).toEqual(without);
  });

  it('makes preferences say nothing, as a pin does', async () => {
    const candidates = ranks.map((one) => ({ ...one, preferredTaintMultiplier: 0.5 }));
    const costs = async (request: Partial<SelectionRequest>) =>
      (await testWorkerSelection(dynamoDefaultCostFn, { candidates, request })).decisions[0].costs;
    const [, , free] = await costs({});
    const [, , held] = await costs(target(2n));
    expect(held).toBe(2 * free!);
    expect((await costs({ pinnedWorker: { workerId: 2n, rank: null } }))[2]).toBe(held);
  });
});
