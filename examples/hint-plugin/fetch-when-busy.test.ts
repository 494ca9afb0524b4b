// Run with: pointsman plugins test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkHintPolicy, conversationTrace, replayTrial, testHintPolicy } from 'pointsman/testing';
import policy from './fetch-when-busy.ts';

const context = {
  // What the engine takes; without it the trial takes any action.
  capabilities: ['kv.fetch@1.0'],
  copySources: [{ source: { workerId: 2n, rank: 0 }, blockHashes: [11n, 12n, 13n, 14n] }],
};

test('a busy worker fetches', async () => {
  const { actions, dropped, error } = await testHintPolicy(policy, {
    context: { ...context, load: { activePrefillTokens: 4096 } },
  });
  assert.deepEqual([dropped, error], [null, null]);
  assert.equal(actions.length, 1);
});

test('an idle worker computes', async () => {
  const { actions } = await testHintPolicy(policy, { context });
  assert.deepEqual(actions, []);
});

test('a least saving of no block is refused', async () => {
  const refused = testHintPolicy(policy, { parameters: { min_blocks: 0 } });
  await assert.rejects(refused, { code: 'PM_POLICY_PARAMETERS' });
});

test('under load some requests are fetched for, in a calm none is', async () => {
  const fetches = async (speedup: number) => {
    const { decisions, faults } = await replayTrial({
      selection: 'round-robin',
      hints: [{ definition: policy }],
      trace: conversationTrace({ conversations: 32 }),
      speedup,
    });
    assert.deepEqual(faults, []);
    return decisions.filter(({ actions }) => actions.length > 0).length;
  };
  assert.ok((await fetches(50)) > 0);
  assert.equal(await fetches(0.01), 0);
});

test('keeps what the router expects of every hint policy', async () => {
  assert.deepEqual(await checkHintPolicy(policy), []);
});
