// Run with: pointsman plugins test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkHintPolicy, replayTrial, testHintPolicy } from 'pointsman/testing';
import policy from './my-policy.ts';

/** What the engine says it takes; without it a trial takes any action. */
const capabilities = ['kv.retain@1.1'];
const session = { sessionId: 'main' };

test('keeps the prompt, and the answer less', async () => {
  const { actions, dropped, error } = await testHintPolicy(policy, {
    context: { capabilities, session, promptTokens: 100 },
  });
  assert.deepEqual([dropped, error], [null, null]);
  assert.deepEqual(actions, [
    {
      action_id: 'a1',
      action_type: 'kv.retain',
      action_version: '1.1',
      payload: {
        scope: 'main',
        directives: [
          { start: 0, end: 100, priority: 50, duration: 60 },
          { covers_output: true, priority: 20, duration: 60 },
        ],
      },
    },
  ]);
});

test('keeps nothing for nobody, and after the last request', async () => {
  for (const context of [{}, { session: { ...session, sessionFinal: true } }]) {
    assert.deepEqual((await testHintPolicy(policy, { context })).actions, []);
  }
});

test('refuses a priority that engines do not have', async () => {
  const refused = testHintPolicy(policy, { parameters: { priority: 101 } });
  await assert.rejects(refused, { code: 'PM_POLICY_PARAMETERS' });
});

test('keeps blocks in front of simulated workers', async () => {
  const { decisions, faults, warnings } = await replayTrial({ hints: [{ definition: policy }] });
  assert.deepEqual([faults, warnings], [[], []]);
  const sent = decisions.flatMap(({ actions }) => actions);
  assert.ok(sent.some(({ blocksDone, outcome }) => outcome === 'accepted' && (blocksDone ?? 0) > 0));
});

test('keeps what the router expects of every hint policy', async () => {
  assert.deepEqual(await checkHintPolicy(policy), []);
});
