// Run with: pointsman plugins test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SessionLineage } from 'pointsman/plugin';
import { checkHintPolicy, replayTrial, testHintPolicy } from 'pointsman/testing';
import policy from './my-policy.ts';

/** On worker 1 the session `main` has these blocks, and no other session has any. */
const blocks = [11n, 12n, 13n];
const lineage: SessionLineage = {
  nodeOf: () => null,
  node: () => null,
  frontiers: () => [],
  paths: () => [],
  uniqueBlocks: (sessionId, { workerId }) =>
    BigUint64Array.from(sessionId === 'main' && workerId === 1n ? blocks : []),
  exclusiveBlocks: (sessionId, worker) => lineage.uniqueBlocks(sessionId, worker),
};
/** What the engine says it takes; without it a trial takes any action. */
const capabilities = ['kv.retain@1.0'];
const session = { sessionId: 'main' };

test('keeps what the session has on the booked worker', async () => {
  const { actions, dropped, error } = await testHintPolicy(policy, {
    context: { capabilities, lineage, session, worker: { workerId: 1n, rank: 0 } },
  });
  assert.deepEqual([dropped, error], [null, null]);
  assert.deepEqual(actions, [
    {
      action_id: 'a1',
      action_type: 'kv.retain',
      action_version: '1.0',
      payload: { block_hashes: BigUint64Array.from(blocks), priority: 50, ttl_ms: 60_000 },
    },
  ]);
});

test('keeps the first blocks where there are too many', async () => {
  const { actions } = await testHintPolicy(policy, {
    parameters: { max_blocks: 2 },
    context: { lineage, session },
  });
  assert.deepEqual(actions[0]?.payload.block_hashes, BigUint64Array.of(11n, 12n));
});

test('keeps nothing for nobody, on another worker, and after the last request', async () => {
  for (const context of [
    { lineage },
    { session },
    { lineage, session, worker: { workerId: 2n, rank: 0 } },
    { lineage, session: { ...session, sessionFinal: true } },
  ]) {
    assert.deepEqual((await testHintPolicy(policy, { context })).actions, []);
  }
});

test('refuses a priority that engines do not have', async () => {
  const refused = testHintPolicy(policy, { parameters: { priority: 101 } });
  await assert.rejects(refused, { code: 'PM_POLICY_PARAMETERS' });
});

test('costs no request anything in front of simulated workers', async () => {
  const { faults } = await replayTrial({ hints: [{ definition: policy }] });
  assert.deepEqual(faults, []);
});

test('keeps what the router expects of every hint policy', async () => {
  assert.deepEqual(await checkHintPolicy(policy), []);
});
