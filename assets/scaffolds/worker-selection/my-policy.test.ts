// Run with: pointsman plugins test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkWorkerSelection, replayTrial, testWorkerSelection } from 'pointsman/testing';
import policy from './my-policy.ts';

test('prefers the worker that holds the prompt', async () => {
  const { decisions } = await testWorkerSelection(policy, {
    candidates: [{}, { cache: { deviceBlocks: 8 } }],
    request: { promptTokens: 160, blockSize: 16 },
  });
  assert.equal(decisions[0].row, 1);
  assert.deepEqual(decisions[0].costs, [160, 32]);
});

test('does not queue behind more prefill than the cache saves', async () => {
  const { decisions } = await testWorkerSelection(policy, {
    candidates: [{}, { cache: { deviceBlocks: 8 }, load: { activePrefillTokens: 200 } }],
    request: { promptTokens: 160, blockSize: 16 },
  });
  assert.equal(decisions[0].row, 0);
});

test('leaves out a worker that is full', async () => {
  const { decisions } = await testWorkerSelection(policy, {
    parameters: { max_requests: 2 },
    candidates: [{ load: { activeRequests: 2 }, cache: { deviceBlocks: 8 } }, {}],
  });
  assert.equal(decisions[0].row, 1);
  assert.deepEqual(decisions[0].droppedBy, ['full', null]);
});

test('finds more of the prompts cached than taking turns does', async () => {
  const mine = await replayTrial({ selection: { definition: policy } });
  const turns = await replayTrial({ selection: 'round-robin' });
  assert.deepEqual([mine.faults, mine.warnings], [[], []]);
  assert.ok(mine.hitRate > turns.hitRate, `${mine.hitRate} against ${turns.hitRate}`);
});

test('keeps what the router expects of every worker-selection policy', async () => {
  assert.deepEqual(await checkWorkerSelection(policy), []);
});
