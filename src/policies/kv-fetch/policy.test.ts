import { describe, expect, it } from 'vitest';
import { testHintPolicy } from '../../testing/index.ts';
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
});
