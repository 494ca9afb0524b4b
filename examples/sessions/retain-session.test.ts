// Run with: pointsman plugins test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SessionLineage } from 'pointsman/plugin';
import { checkHintPolicy, testHintPolicy } from 'pointsman/testing';
import policy from './retain-session.ts';

/** Every session has these blocks on every worker. */
const lineageOf = (...blocks: bigint[]): SessionLineage => ({
  nodeOf: () => null,
  node: () => null,
  frontiers: () => [],
  paths: () => [BigUint64Array.from(blocks)],
  uniqueBlocks: () => BigUint64Array.from(blocks),
  exclusiveBlocks: () => BigUint64Array.from(blocks),
});

const context = {
  session: { sessionId: 's' },
  capabilities: ['kv.retain@1.0'],
  lineage: lineageOf(11n, 12n, 2n ** 64n - 1n),
};

test('names the blocks of the session', async () => {
  const { actions, dropped } = await testHintPolicy(policy, { context });
  assert.equal(dropped, null);
  const block_hashes = BigUint64Array.of(11n, 12n, 2n ** 64n - 1n);
  assert.deepEqual(actions[0]?.payload, { block_hashes, priority: 50, ttl_ms: 60_000 });
});

test('cuts at max_blocks', async () => {
  const { actions } = await testHintPolicy(policy, { parameters: { max_blocks: 2 }, context });
  assert.deepEqual(actions[0]?.payload.block_hashes, BigUint64Array.of(11n, 12n));
});

for (const [when, change] of Object.entries({
  'without a session': { session: null },
  'with the final request': { session: { sessionId: 's', sessionFinal: true } },
  'when nothing is known of it': { lineage: lineageOf() },
})) {
  test(`sends nothing ${when}`, async () => {
    assert.deepEqual((await testHintPolicy(policy, { context: { ...context, ...change } })).actions, []);
  });
}

test('sends nothing where the lineage is switched off', async () => {
  const { session, capabilities } = context;
  assert.deepEqual((await testHintPolicy(policy, { context: { session, capabilities } })).actions, []);
});

test('keeps what the router expects of every hint policy', async () => {
  assert.deepEqual(await checkHintPolicy(policy, { context: { lineage: context.lineage } }), []);
});
