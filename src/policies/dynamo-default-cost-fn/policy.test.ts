// Golden vectors computed by hand from the formula in README.md.
import { describe, expect, it } from 'vitest';
import { type TrialCandidate, testWorkerSelection } from '../../testing/index.ts';
import { dynamoDefaultCostFn } from './policy.ts';

/** Candidates of the published selection benchmark: no tier matches, so the router's estimate stands in for device blocks. */
function benchmarkCandidates(count: number): TrialCandidate[] {
  return Array.from({ length: count }, (_, i) => {
    const cachedTokens = (i % 32) * 64;
    return {
      workerId: BigInt(i),
      cache: { cachedTokens, effectiveOverlapBlocks: cachedTokens / 16 },
      load: { activePrefillTokens: 16 * i, decodeCostBlocks: i % 127, activeRequests: i % 17 },
    };
  });
}

async function decide(candidates: readonly TrialCandidate[], parameters: object = {}, trial: object = {}) {
  const { decisions } = await testWorkerSelection(dynamoDefaultCostFn, { parameters, candidates, ...trial });
  return decisions[0];
}

describe('dynamo-default-cost-fn', () => {
  it('adds prefill blocks less credit to decode blocks: 96 + 138 = 234', async () => {
    const decision = await decide([
      {
        cache: { hasTierMatches: true, deviceBlocks: 64, cachedTokens: 1024 },
        load: { activePrefillTokens: 512, decodeCostBlocks: 138 },
      },
    ]);
    expect(decision.costs).toEqual([234]);
  });

  it('never lets credit beyond the prompt make a cost negative', async () => {
    const decision = await decide(
      [{ cache: { hasTierMatches: true, deviceBlocks: 8, cachedTokens: 128 }, load: {} }],
      {},
      { request: { promptTokens: 100 } },
    );
    expect(decision.costs).toEqual([0]);
  });

  it('halves device credit where decay is 1 and one prompt more is queued than at the idlest', async () => {
    const cache = { hasTierMatches: true, deviceBlocks: 64, cachedTokens: 1024 };
    const decision = await decide(
      [
        { cache, load: { activePrefillTokens: 0 } },
        { cache, load: { activePrefillTokens: 2048 } },
      ],
      { overlap_score_credit_decay: 1 },
    );
    expect(decision.costs).toEqual([128 - 64, 256 - 32]);
  });

  it.each([
    [2, 1n, 126],
    [32, 31n, 66],
    [1024, 31n, 66],
    [10_000, 31n, 66],
  ])('finds the winner of the benchmark fixture among %i workers', async (count, winner, cost) => {
    const decision = await decide(benchmarkCandidates(count));
    expect(decision.workerId).toBe(winner);
    expect(decision.costs[decision.row]).toBe(cost);
    expect(decision.ties).toBe(1);
    expect(decision.by).toBe('lowest_cost');
  });

  it.each([
    [2, 1n, 126.0310078],
    [32, 31n, 90.1761006],
    [1024, 31n, 90.1761006],
    [10_000, 31n, 90.1761006],
  ])('finds the winner of the fixture with decay 1 among %i workers', async (count, winner, cost) => {
    const decision = await decide(benchmarkCandidates(count), { overlap_score_credit_decay: 1 });
    expect(decision.workerId).toBe(winner);
    expect(decision.costs[decision.row]).toBeCloseTo(cost, 6);
  });

  it('weighs host and disk blocks with their own credits and active requests with theirs', async () => {
    const decision = await decide(
      [
        {
          cache: { hasTierMatches: true, deviceBlocks: 10, hostBlocks: 8, diskBlocks: 4, cachedTokens: 272 },
          load: { decodeCostBlocks: 5, activeRequests: 3 },
        },
      ],
      { decode_active_request_weight: 2, prefill_load_scale: 0.5 },
    );
    expect(decision.costs).toEqual([0.5 * (128 - 10 - 6 - 1) + 5 + 6]);
  });

  it('takes the whole prompt for a worker whose load is unknown', async () => {
    const decision = await decide([{}]);
    expect(decision.costs).toEqual([128]);
  });

  it('credits decode blocks where a decode role does not track prefill', async () => {
    const candidates = [
      {
        cache: { hasTierMatches: true, deviceBlocks: 20, cachedTokens: 320 },
        load: { decodeCostBlocks: 50, activePrefillTokens: 9999 },
      },
    ];
    const request = { tracksPrefillTokens: false };
    expect((await decide(candidates, {}, { request, role: 'decode' })).costs).toEqual([30]);
    expect((await decide(candidates, {}, { request, role: 'prefill' })).costs).toEqual([50]);
  });

  it('multiplies by the preferred taint, and not for a pinned request', async () => {
    const candidates = [
      { load: { decodeCostBlocks: 2 }, preferredTaintMultiplier: Math.exp(-Math.tanh(1)) },
      { load: { decodeCostBlocks: 0 } },
    ];
    const free = await decide(candidates);
    expect(free.row).toBe(0);
    expect(free.costs[0]).toBeCloseTo(130 * 0.46692, 2);
    const pinned = await decide(candidates, {}, { request: { pinnedWorker: { workerId: 1n, rank: 0 } } });
    expect(pinned.costs).toEqual([130, Number.NaN]);
    expect(pinned.by).toBe('pinned');
  });

  it('neither asks for caches nor reads them when the credit is 0', async () => {
    const { decisions, needs } = await testWorkerSelection(dynamoDefaultCostFn, {
      parameters: { overlap_score_credit: 0 },
      candidates: [{ cache: { hasTierMatches: true, deviceBlocks: 64, cachedTokens: 1024 }, load: {} }],
    });
    expect(needs.cache).toBe(false);
    expect(decisions[0].costs).toEqual([128]);
  });

  it('repeats its draws for the same u64 seed and differs for another', async () => {
    const candidates = Array.from({ length: 64 }, () => ({ load: {} }));
    const rows = async (seed: bigint | number) => {
      const trial = { parameters: { seed }, candidates, decisions: 20 };
      return (await testWorkerSelection(dynamoDefaultCostFn, trial)).decisions.map(({ row }) => row);
    };
    const seed = 18_446_744_073_709_551_615n;
    expect(await rows(seed)).toEqual(await rows(seed));
    expect(await rows(seed)).not.toEqual(await rows(7));
  });

  it('lets the temperature of a request replace its own', async () => {
    const candidates = [{ load: { decodeCostBlocks: 1 } }, { load: {} }];
    const decision = await decide(candidates, {}, { request: { temperatureOverride: 0.7 } });
    expect(decision.by).toBe('sampled');
  });

  it('credits nothing in a shared cache while there is none', async () => {
    const trial = (shared_cache_multiplier: number) =>
      testWorkerSelection(dynamoDefaultCostFn, {
        parameters: {
          shared_cache_multiplier,
          decode_active_request_weight: 1,
          overlap_score_credit_decay: 1,
        },
        candidates: [
          { copies: { copyableBlocks: 8, sourcePrefixBlocks: 8 }, load: { activeRequests: 1 } },
          {},
        ],
      });
    expect((await trial(2)).decisions[0]).toEqual((await trial(0)).decisions[0]);
  });

  it('refuses unknown parameters with the nearest name, and negative ones', async () => {
    await expect(decide([{}], { overlap_score_credt: 1 })).rejects.toThrow(
      'dynamo-default-cost-fn: parameters.overlap_score_credt: unknown key "overlap_score_credt" (did you mean "overlap_score_credit"?)',
    );
    await expect(decide([{}], { router_temperature: -1 })).rejects.toThrow(
      /^dynamo-default-cost-fn: parameters.router_temperature: Too small/,
    );
    await expect(decide([{}], { prefill_load_scale: Number.POSITIVE_INFINITY })).rejects.toThrow(
      /prefill_load_scale/,
    );
  });
});
