// Run with: pointsman plugins test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkHintPolicy, replayTrial, testHintPolicy } from 'pointsman/testing';
import policy from './fetch-unless-on-disk.ts';

/** The booked worker has 2 blocks on its device, and so many on disk behind them; worker 2 has 10 blocks. */
const booked = (diskBlocks: number) => ({
  capabilities: ['kv.fetch@1.0'],
  localPrefixBlocks: 2,
  cache: { deviceBlocks: 2, diskBlocks },
  copySources: [
    {
      source: { workerId: 2n, rank: 0 },
      blockHashes: [11n, 12n, 13n, 14n, 15n, 16n, 17n, 18n, 19n, 20n],
    },
  ],
});

for (const [diskBlocks, fetches] of [
  [0, 1],
  [4, 1],
  // 2 + 5 of its own leave 3, fewer than 4.
  [5, 0],
] as const) {
  test(`with ${diskBlocks} blocks on disk ${fetches === 1 ? 'it fetches' : 'there is too little to fetch'}`, async () => {
    const { actions, dropped, error } = await testHintPolicy(policy, { context: booked(diskBlocks) });
    assert.deepEqual([dropped, error], [null, null]);
    assert.equal(actions.length, fetches);
  });
}

test('over a trace on workers without disks, blocks are fetched', async () => {
  const { decisions, faults } = await replayTrial({
    selection: 'round-robin',
    hints: [{ definition: policy }],
  });
  assert.deepEqual(faults, []);
  assert.ok(decisions.some(({ actions }) => actions.some(({ blocksDone }) => (blocksDone ?? 0) > 0)));
});

test('keeps what the router expects of every hint policy', async () => {
  assert.deepEqual(await checkHintPolicy(policy), []);
});
