// Run with: pointsman plugins test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SessionLineage } from 'pointsman/plugin';
import { checkHintPolicy, conversationTrace, replayTrial, testHintPolicy } from 'pointsman/testing';
import policy from './my-policy.ts';

/** On worker 1 the session `main` has these blocks, the first of them together with others. */
const blocks = [11n, 12n, 13n];
const lineage: SessionLineage = {
  nodeOf: () => null,
  node: () => null,
  frontiers: () => [],
  paths: () => [],
  uniqueBlocks: (sessionId, { workerId }) =>
    BigUint64Array.from(sessionId === 'main' && workerId === 1n ? blocks : []),
  exclusiveBlocks: (sessionId, worker) => lineage.uniqueBlocks(sessionId, worker).slice(1),
};
/** What the engine says it takes; without it a trial takes any action. */
const capabilities = ['kv.evict@1.0'];
const session = { sessionId: 'main', sessionFinal: true };

test('gives up what no other session has', async () => {
  const { actions, dropped, error } = await testHintPolicy(policy, {
    context: { capabilities, lineage, session, worker: { workerId: 1n, rank: 0 } },
  });
  assert.deepEqual([dropped, error], [null, null]);
  assert.deepEqual(actions, [
    {
      action_id: 'a1',
      action_type: 'kv.evict',
      action_version: '1.0',
      payload: {
        block_hashes: BigUint64Array.of(12n, 13n),
        tier: 'all',
        execute_at: 'request_completion',
      },
    },
  ]);
});

test('gives up nothing before the last request, for nobody, on another worker, or where it is too little', async () => {
  for (const context of [
    { lineage, session: { sessionId: 'main' } },
    { lineage },
    { session },
    { lineage, session, worker: { workerId: 2n, rank: 0 } },
  ]) {
    assert.deepEqual((await testHintPolicy(policy, { context })).actions, []);
  }
  const few = await testHintPolicy(policy, { parameters: { min_blocks: 3 }, context: { lineage, session } });
  assert.deepEqual(few.actions, []);
});

test('refuses a tier that engines do not have', async () => {
  const refused = testHintPolicy(policy, { parameters: { tier: 'disk' } });
  await assert.rejects(refused, { code: 'PM_POLICY_PARAMETERS' });
});

test('frees blocks in front of simulated workers', async () => {
  const turns = conversationTrace();
  const last = new Map(turns.map(({ session_id }, at) => [session_id, at]));
  const trace = turns.map((turn, at) =>
    last.get(turn.session_id) === at
      ? { ...turn, session_context: { session_id: String(turn.session_id), session_final: true } }
      : turn,
  );
  const { decisions, faults, warnings } = await replayTrial({ hints: [{ definition: policy }], trace });
  assert.deepEqual([faults, warnings], [[], []]);
  const sent = decisions.flatMap(({ actions }) => actions);
  assert.ok(sent.some(({ blocksDone, outcome }) => outcome === 'accepted' && (blocksDone ?? 0) > 0));
});

test('keeps what the router expects of every hint policy', async () => {
  assert.deepEqual(await checkHintPolicy(policy), []);
});
