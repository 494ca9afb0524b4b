// Run with: pointsman plugins test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkHintPolicy, replayTrial, testHintPolicy } from 'pointsman/testing';
import policy from './fetch-at-most.ts';

/** The booked worker has 2 blocks itself, worker 2 has 6. */
const context = {
  capabilities: ['kv.fetch@1.0'],
  localPrefixBlocks: 2,
  copySources: [{ source: { workerId: 2n, rank: 0 }, blockHashes: [11n, 12n, 13n, 14n, 15n, 16n] }],
};

for (const [max_blocks, block_hashes] of [
  [1, [11n, 12n, 13n]],
  [3, [11n, 12n, 13n, 14n, 15n]],
  [64, [11n, 12n, 13n, 14n, 15n, 16n]],
] as const) {
  test(`at most ${max_blocks}, behind what the worker has`, async () => {
    const { actions } = await testHintPolicy(policy, { parameters: { max_blocks }, context });
    assert.deepEqual(actions[0]?.payload, {
      source_control_endpoint: 'tcp://source:1',
      block_hashes: BigUint64Array.from(block_hashes),
    });
  });
}

test('engines fetch that many and no more', async () => {
  const { decisions, faults } = await replayTrial({
    selection: 'round-robin',
    hints: [{ definition: policy, parameters: { max_blocks: 2 } }],
  });
  assert.deepEqual(faults, []);
  const fetched = decisions.flatMap(({ actions }) => actions.map(({ blocksDone }) => blocksDone ?? 0));
  assert.equal(Math.max(...fetched), 2);
});

test('keeps what the router expects of every hint policy', async () => {
  assert.deepEqual(await checkHintPolicy(policy), []);
});
