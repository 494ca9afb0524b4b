// Golden vector of the plugin contract, computed by hand from the formula in README.md.
import { describe, expect, it } from 'vitest';
import { testWorkerSelection } from '../../testing/index.ts';
import { kvcr } from './policy.ts';

/** Prompt of 128 blocks: worker 1 holds 64 and is busy, worker 2 holds 8, worker 3 none. */
const candidates = [
  {
    cache: { hasTierMatches: true, deviceBlocks: 64, cachedTokens: 1024 },
    load: { activePrefillTokens: 8192, decodeCostBlocks: 128 },
    copies: { copyableBlocks: 0, sourcePrefixBlocks: 8 },
  },
  {
    cache: { hasTierMatches: true, deviceBlocks: 8, cachedTokens: 128 },
    load: { decodeCostBlocks: 128 },
    copies: { copyableBlocks: 56, sourcePrefixBlocks: 64 },
  },
  { load: { decodeCostBlocks: 128 }, copies: { copyableBlocks: 64, sourcePrefixBlocks: 64 } },
];

async function decide(parameters: object = {}, trial: object = {}) {
  const { decisions, needs } = await testWorkerSelection(kvcr, { parameters, candidates, ...trial });
  return { ...decisions[0], needs };
}

describe('kvcr', () => {
  it('credits half of what a peer could copy and commits it: 704, 220, 224', async () => {
    const { costs, workerId, commitKvCopy, needs } = await decide();
    expect(costs).toEqual([704, 220, 224]);
    expect([workerId, commitKvCopy, needs.copies]).toEqual([2n, true, true]);
  });

  it('is the default cost with multiplier 0, and commits nothing: 704, 248, 256', async () => {
    const { costs, workerId, commitKvCopy, needs } = await decide({ shared_cache_multiplier: 0 });
    expect(costs).toEqual([704, 248, 256]);
    expect([workerId, commitKvCopy, needs.copies]).toEqual([2n, false, false]);
  });

  it('commits nothing where the chosen worker has nothing to gain', async () => {
    const alone = [{ ...candidates[1]!, copies: { copyableBlocks: 0, sourcePrefixBlocks: 8 } }];
    const { commitKvCopy, costs } = await decide({}, { candidates: alone });
    expect([commitKvCopy, costs]).toEqual([false, [248]]);
  });

  it('takes the parameters of the default cost', async () => {
    const parameters = { overlap_score_credit: 0, prefill_load_scale: 2, decode_active_request_weight: 1 };
    expect((await decide(parameters)).costs).toEqual([1408, 2 * (128 - 28) + 128, 2 * (128 - 32) + 128]);
    expect((await decide({ router_temperature: 0.5 })).by).toBe('sampled');
  });

  it('credits copies against decode blocks where a decode role does not track prefill', async () => {
    const trial = { role: 'decode', request: { tracksPrefillTokens: false } };
    expect((await decide({}, trial)).costs).toEqual([64, 92, 96]);
  });

  it('commits for a pinned worker as well', async () => {
    const request = { pinnedWorker: { workerId: 3n, rank: 0 } };
    expect(await decide({}, { request })).toMatchObject({ workerId: 3n, by: 'pinned', commitKvCopy: true });
  });

  it.each([-0.1, 1.1])('refuses a multiplier of %f', async (multiplier) => {
    await expect(decide({ shared_cache_multiplier: multiplier })).rejects.toThrow(
      /^kvcr: parameters.shared_cache_multiplier: Too/,
    );
  });
});
