import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type TrialCandidate, testWorkerSelection } from '../../testing/index.ts';
import { dynamoDefaultCostFn } from '../dynamo-default-cost-fn/policy.ts';
import { pointsmanTunedCost } from './policy.ts';

async function costsOf(candidates: readonly TrialCandidate[], parameters: object = {}, trial: object = {}) {
  const { decisions } = await testWorkerSelection(pointsmanTunedCost, { parameters, candidates, ...trial });
  return decisions[0].costs;
}
const onDevice = (deviceBlocks: number, hostBlocks = 0) => ({
  cache: { deviceBlocks, hostBlocks, hasTierMatches: true },
});

describe('pointsman-tuned-cost', () => {
  // The prompt has 128 blocks of 16 tokens.
  it.each<[string, TrialCandidate, number]>([
    ['nothing known', {}, 8 * 128],
    [
      'a quarter of it cached: four times the credit cancels all',
      { ...onDevice(32), load: { decodeCostBlocks: 96 } },
      96,
    ],
    ['16 blocks cached', { ...onDevice(16), load: { decodeCostBlocks: 112 } }, 8 * (128 - 64) + 112],
    ['16 blocks cached and 24 in flight', { ...onDevice(16), inFlightBlocks: 24, load: {} }, 8 * (128 - 96)],
    [
      '24 in flight that reach into the host tier',
      { ...onDevice(16, 12), inFlightBlocks: 24, load: {} },
      8 * (128 - 96 - 0.75 * 4),
    ],
    [
      '512 tokens before it',
      { load: { activePrefillTokens: 512, decodeCostBlocks: 10 } },
      8 * (128 + 32) + 10,
    ],
  ])('costs, with %s, what the formula says', async (_, candidate, expected) => {
    expect((await costsOf([candidate]))[0]).toBeCloseTo(expected, 9);
  });

  it('is the default cost with these weights where nothing is in flight', async () => {
    const one = fc.record({
      device: fc.nat(128),
      host: fc.nat(64),
      disk: fc.nat(64),
      active: fc.nat(100_000),
      decode: fc.nat(10_000),
      requests: fc.nat(100),
      taint: fc.double({ min: 0.4, max: 2.7, noNaN: true }),
      known: fc.boolean(),
    });
    const parameters = { prefill_load_scale: 8, overlap_score_credit: 4, decode_active_request_weight: 3 };
    const role = fc.constantFrom('aggregated', 'decode', 'prefill');
    await fc.assert(
      fc.asyncProperty(
        fc.array(one, { minLength: 1, maxLength: 6 }),
        role,
        fc.boolean(),
        async (given, as, tracks) => {
          const candidates = given.map(({ device, host, disk, active, decode, requests, taint, known }) => ({
            cache: { deviceBlocks: device, hostBlocks: host, diskBlocks: disk, hasTierMatches: true },
            ...(known
              ? { load: { activePrefillTokens: active, decodeCostBlocks: decode, activeRequests: requests } }
              : {}),
            preferredTaintMultiplier: taint,
          }));
          const trial = {
            candidates,
            parameters,
            role: as,
            request: { tracksPrefillTokens: tracks },
          } as const;
          const ours = await testWorkerSelection(pointsmanTunedCost, trial);
          const theirs = await testWorkerSelection(dynamoDefaultCostFn, trial);
          for (const [row, cost] of ours.decisions[0].costs.entries())
            expect(cost).toBeCloseTo(theirs.decisions[0].costs[row] ?? Number.NaN, 6);
        },
      ),
      { numRuns: 60 },
    );
  });

  it('never costs more for more in flight', async () => {
    const candidates = Array.from({ length: 129 }, (_, inFlightBlocks) => ({
      ...onDevice(20, 30),
      inFlightBlocks,
      load: { activePrefillTokens: 40_000 },
    }));
    const costs = await costsOf(candidates);
    for (let row = 1; row < costs.length; row += 1)
      expect(costs[row]).toBeLessThanOrEqual(costs[row - 1] ?? Number.NaN);
  });

  it('breaks exact ties at random', async () => {
    const { decisions } = await testWorkerSelection(pointsmanTunedCost, {
      candidates: [{}, {}, {}],
      decisions: 60,
    });
    expect(new Set(decisions.map(({ row }) => row))).toEqual(new Set([0, 1, 2]));
  });

  it('refuses parameters that the default cost has and it has not', async () => {
    await expect(costsOf([{}], { router_temperature: 1 })).rejects.toThrow(/router_temperature/);
  });
});
