// Run with: pointsman plugins test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkHintPolicy, conversationTrace, replayTrial, testHintPolicy } from 'pointsman/testing';
import policy from './pin-children.ts';

const session = { sessionId: 'child', parentSessionId: 'main' };

test('a child says whose it is', async () => {
  // What the engine advertises: without it the trial takes any action.
  const context = { session, capabilities: ['acme.pin@1.0'] };
  const { actions, dropped, error } = await testHintPolicy(policy, { context });
  assert.deepEqual([dropped, error], [null, null]);
  assert.deepEqual(actions[0]?.payload, { parent: 'main' });
});

test('others say nothing', async () => {
  for (const other of [null, { sessionId: 'main' }]) {
    const { actions } = await testHintPolicy(policy, { context: { session: other } });
    assert.deepEqual(actions, []);
  }
});

test('an engine that does not know the action is not sent it', async () => {
  const { dropped, error } = await testHintPolicy(policy, {
    context: { session, capabilities: ['kv.fetch@1.0'] },
  });
  assert.deepEqual(
    [dropped, error],
    ['unsupported_action', 'action acme.pin@1.0; the rank accepts kv.fetch@1.0'],
  );
});

test('takes no parameters', async () => {
  const refused = testHintPolicy(policy, { parameters: { ttl: 5 } });
  await assert.rejects(refused, { code: 'PM_POLICY_PARAMETERS' });
});

test('over a trace, children alone send it', async () => {
  const trace = conversationTrace().map((row, index) =>
    index % 3 === 0
      ? { ...row, session_context: { session_id: `child-${index}`, parent_session_id: 'main' } }
      : row,
  );
  const { decisions, faults } = await replayTrial({
    hints: [{ definition: policy }],
    trace,
    acceptActions: ['acme.pin@1.0'],
  });
  assert.deepEqual(faults, []);
  for (const { actions, request } of decisions) assert.equal(actions.length, request % 3 === 0 ? 1 : 0);
});

test('keeps what the router expects of every hint policy', async () => {
  assert.deepEqual(await checkHintPolicy(policy), []);
});
