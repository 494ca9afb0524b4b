// Run with: pointsman plugins test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkWorkerSelection, conversationTrace, replayTrial, testWorkerSelection } from 'pointsman/testing';
import policy from './long-apart.ts';

const parameters = { long_tokens: 4096, long_workers: [1] };

test('a short prompt avoids the worker for long ones', async () => {
  const { decisions } = await testWorkerSelection(policy, {
    parameters,
    candidates: [{}, { load: { activePrefillTokens: 1000 } }],
    request: { promptTokens: 100 },
  });
  assert.equal(decisions[0].workerId, 2n);
});

test('it goes there all the same when the others are far busier', async () => {
  const { decisions } = await testWorkerSelection(policy, {
    parameters,
    candidates: [{}, { load: { activePrefillTokens: 100_000 } }],
    request: { promptTokens: 100 },
  });
  assert.equal(decisions[0].workerId, 1n);
});

test('over a whole trace, long and short prompts stay apart', async () => {
  const { decisions, faults } = await replayTrial({
    selection: { definition: policy, parameters },
    trace: conversationTrace({ turnBlocks: 3 }),
  });
  assert.deepEqual(faults, []);
  for (const { promptTokens, workerId } of decisions) assert.equal(workerId === 1n, promptTokens >= 4096);
});

test('keeps what the router expects of every worker-selection policy', async () => {
  assert.deepEqual(await checkWorkerSelection(policy, { parameters }), []);
});
