import { describe, expect, it } from 'vitest';
import { openHintPolicy, testHintPolicy } from '../../testing/index.ts';
import { kvFetch } from './policy.ts';

const BIG = 2n ** 64n - 1n;
const source = (workerId: bigint, ...blockHashes: bigint[]) => ({
  source: { workerId, rank: 0 },
  blockHashes,
  controlEndpoint: `tcp://worker-${workerId}:7`,
});

describe('kv_fetch', () => {
  it('names the longest holder and its own hashes from the root, exact to 64 bits', async () => {
    const { actions } = await testHintPolicy(kvFetch, {
      context: { localPrefixBlocks: 1, copySources: [source(2n, 5n, 6n), source(3n, 7n, BIG, 9n)] },
    });
    expect(actions).toEqual([
      {
        action_id: 'a1',
        action_type: 'kv.fetch',
        action_version: '1.0',
        payload: {
          source_control_endpoint: 'tcp://worker-3:7',
          block_hashes: BigUint64Array.of(7n, BIG, 9n),
        },
      },
    ]);
  });

  it.each([
    [1, 1],
    [2, 1],
    [3, 0],
  ])('sends at min_additional_blocks %i: %i action', async (minimum, count) => {
    const { actions, dropped } = await testHintPolicy(kvFetch, {
      parameters: { min_additional_blocks: minimum },
      context: { localPrefixBlocks: 1, copySources: [source(2n, 5n, 6n, 7n)] },
    });
    expect(dropped).toBeNull();
    expect(actions).toHaveLength(count);
  });

  it('sends nothing when nobody else holds the prompt', async () => {
    expect(await testHintPolicy(kvFetch)).toEqual({
      actions: [],
      dropped: null,
      error: null,
      ran: true,
    });
  });

  it('refuses a minimum below 1', async () => {
    const trial = testHintPolicy(kvFetch, { parameters: { min_additional_blocks: 0 } });
    await expect(trial).rejects.toThrow(/^kv_fetch: parameters.min_additional_blocks: Too small/);
  });

  // 16 blocks of 16 tokens at 1 Mbit a token take 16 × 16 × 1,000,000 / 10^8 bits a second, and 1 ms before: 2,561 ms.
  const slowLink = { only_if_faster: true, link_gbps: 0.1, link_latency_ms: 1, kv_bytes_per_token: 125_000 };
  const peers = {
    copySources: [source(2n, ...Array.from({ length: 16 }, (_, block) => BigInt(block + 1)))],
  };

  it.each([
    ['computing takes longer', 10.1, 1],
    ['computing is as fast', 10, 0],
    ['nobody knows how long computing takes', 0, 0],
  ])('sends with only_if_faster where %s', async (_, prefillTokenMs, count) => {
    const trial = await testHintPolicy(kvFetch, {
      parameters: { ...slowLink, link_latency_ms: 0 },
      context: { ...peers, timing: { prefillTokenMs } },
    });
    expect(trial.error).toBeNull();
    expect(trial.actions).toHaveLength(count);
  });

  it('counts attention, the latency, and at most the tokens of the prompt', async () => {
    const sent = async (promptTokens: number, timing: object) =>
      (
        await testHintPolicy(kvFetch, {
          parameters: slowLink,
          context: { ...peers, promptTokens, localPrefixBlocks: 4, timing },
        })
      ).actions.length;
    // 12 blocks: 1,921 ms. Computing 192 tokens after 64: 192 × 160 pairs.
    expect(await sent(2048, { prefillAttentionMs: 1922 / (192 * 160) })).toBe(1);
    expect(await sent(2048, { prefillAttentionMs: 1920 / (192 * 160) })).toBe(0);
    // Of a prompt of 100 tokens only 36 are left to compute.
    expect(await sent(100, { prefillTokenMs: 1922 / 192 })).toBe(0);
  });

  const linked = (link: object) => ({
    copySources: peers.copySources.map((one) => ({
      ...one,
      link: { latencyMs: 1, blockMs: 1, confidence: 0.999, ...link },
    })),
    timing: { prefillTokenMs: 1 },
  });

  it.each<[string, object, object, number]>([
    // Computing 256 tokens takes 256 ms; the configured link 2,561, the measured one 17.
    ['the measured link is faster', {}, {}, 1],
    ['it is not trusted', { measured_link: false }, {}, 0],
    ['hardly anything was measured', {}, { confidence: 0.01 }, 0],
    ['the measured link is slow', { link_gbps: 1000 }, { blockMs: 20 }, 0],
    ['its latency is long', { link_gbps: 1000 }, { latencyMs: 300 }, 0],
    [
      'the configured link is fast and nothing is sure',
      { link_gbps: 1000 },
      { blockMs: 20, confidence: 0 },
      1,
    ],
  ])('sends with only_if_faster where %s: %i', async (_, parameters, link, count) => {
    const trial = await testHintPolicy(kvFetch, {
      parameters: { ...slowLink, ...parameters },
      context: linked(link),
    });
    expect(trial.error).toBeNull();
    expect(trial.actions).toHaveLength(count);
  });

  it('waits for no link that other copies have taken', async () => {
    const policy = await openHintPolicy(kvFetch, {
      parameters: { ...slowLink, link_latency_ms: 0 },
      context: { ...peers, timing: { prefillTokenMs: 15 } },
    });
    expect(policy.book().actions).toHaveLength(1);
    // 2,560 ms of the link are taken, computing takes 3,840.
    expect(policy.book().actions).toHaveLength(0);
    expect(policy.book({ worker: { workerId: 9n, rank: 0 } }).actions).toHaveLength(0);
    policy.clock.advanceTo(1_300);
    expect(policy.book().actions).toHaveLength(1);
  });

  it('sends a committed copy whatever it takes', async () => {
    const { actions } = await testHintPolicy(kvFetch, {
      parameters: slowLink,
      context: { ...peers, committedSource: 0 },
    });
    expect(actions).toHaveLength(1);
  });

  it.each(['link_gbps', 'kv_bytes_per_token'])('refuses a %s of 0', async (name) => {
    const trial = testHintPolicy(kvFetch, { parameters: { [name]: 0 } });
    await expect(trial).rejects.toThrow(`kv_fetch: parameters.${name}: Too small`);
  });
});
