// Run with: pointsman plugins test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkHintPolicy, replayTrial, testHintPolicy } from 'pointsman/testing';
import policy from './my-policy.ts';

/** Worker 2 holds the first three blocks of the prompt. */
const copySources = [{ source: { workerId: 2n, rank: 0 }, blockHashes: [11n, 12n, 13n] }];
/** What the engine says it takes; without it a trial takes any action. */
const capabilities = ['kv.fetch@1.0'];

test('fetches what a peer holds', async () => {
  const { actions, dropped, error } = await testHintPolicy(policy, {
    context: { capabilities, copySources },
  });
  assert.deepEqual([dropped, error], [null, null]);
  assert.deepEqual(actions, [
    {
      action_id: 'a1',
      action_type: 'kv.fetch',
      action_version: '1.0',
      payload: {
        source_control_endpoint: 'tcp://source:1',
        block_hashes: BigUint64Array.of(11n, 12n, 13n),
      },
    },
  ]);
});

test('leaves a copy alone that saves too little', async () => {
  const { actions } = await testHintPolicy(policy, {
    parameters: { min_tokens: 64 },
    context: { copySources, blockSize: 16 },
  });
  assert.deepEqual(actions, []);
});

test('sends nothing to an engine that does not know the action', async () => {
  const context = { capabilities: ['kv.retain@1.0'], copySources };
  const { dropped, error } = await testHintPolicy(policy, { context });
  assert.deepEqual(
    [dropped, error],
    ['unsupported_action', 'action kv.fetch@1.0; the rank accepts kv.retain@1.0'],
  );
});

test('refuses a saving of nothing', async () => {
  const refused = testHintPolicy(policy, { parameters: { min_tokens: 0 } });
  await assert.rejects(refused, { code: 'PM_POLICY_PARAMETERS' });
});

test('brings blocks over in front of simulated workers', async () => {
  const { decisions, faults, warnings } = await replayTrial({
    // Spreads the turns of a conversation over the workers, so that there is something to fetch.
    selection: 'round-robin',
    hints: [{ definition: policy }],
  });
  assert.deepEqual([faults, warnings], [[], []]);
  const fetches = decisions.flatMap(({ actions }) => actions);
  assert.ok(fetches.some(({ blocksDone, outcome }) => outcome === 'accepted' && blocksDone !== null));
});

test('keeps what the router expects of every hint policy', async () => {
  assert.deepEqual(await checkHintPolicy(policy), []);
});
