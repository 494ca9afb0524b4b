// Run with: pointsman plugins test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkHintPolicy, replayTrial, testHintPolicy } from 'pointsman/testing';
import policy from './my-policy.ts';

/** What the engine says it takes; without it a trial takes any action. */
const capabilities = ['acme.action@0.0'];

test('tells the engine of a long prompt', async () => {
  const { actions, dropped, error } = await testHintPolicy(policy, {
    context: { capabilities, promptTokens: 100, session: { sessionId: 'main' } },
  });
  assert.deepEqual([dropped, error], [null, null]);
  assert.deepEqual(actions, [
    {
      action_id: 'a1',
      action_type: 'acme.action',
      action_version: '0.0',
      payload: { prompt_tokens: 100, session_id: 'main' },
    },
  ]);
});

test('says nothing of a short one', async () => {
  const { actions } = await testHintPolicy(policy, {
    parameters: { min_tokens: 101 },
    context: { promptTokens: 100 },
  });
  assert.deepEqual(actions, []);
});

test('sends nothing to an engine that does not know the action', async () => {
  const { dropped, error } = await testHintPolicy(policy, { context: { capabilities: ['kv.fetch@1.0'] } });
  assert.deepEqual(
    [dropped, error],
    ['unsupported_action', 'action acme.action@0.0; the rank accepts kv.fetch@1.0'],
  );
});

test('refuses a prompt of no token', async () => {
  const refused = testHintPolicy(policy, { parameters: { min_tokens: 0 } });
  await assert.rejects(refused, { code: 'PM_POLICY_PARAMETERS' });
});

test('reaches simulated workers that are told to accept it', async () => {
  const { decisions, faults, warnings } = await replayTrial({
    hints: [{ definition: policy }],
    acceptActions: capabilities,
  });
  assert.deepEqual([faults, warnings], [[], []]);
  const sent = decisions.flatMap(({ actions }) => actions);
  assert.ok(sent.length > 0);
  assert.ok(sent.every(({ outcome }) => outcome === 'accepted'));
});

test('keeps what the router expects of every hint policy', async () => {
  assert.deepEqual(await checkHintPolicy(policy), []);
});
