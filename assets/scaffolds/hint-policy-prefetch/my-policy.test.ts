// Run with: pointsman plugins test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BlockResidency, SessionLineage } from 'pointsman/plugin';
import { checkHintPolicy, openHintPolicy, replayTrial, testHintPolicy } from 'pointsman/testing';
import policy from './my-policy.ts';

/** What sessions have on the device of every worker; the rest of what they had lies in host memory. */
function cache(onDevice: Readonly<Record<string, readonly bigint[]>>) {
  const blocksOf = (id: string) => BigUint64Array.from(onDevice[id] ?? []);
  const lineage: SessionLineage = {
    nodeOf: () => null,
    node: () => null,
    frontiers: () => [],
    paths: (id) => [blocksOf(id)],
    uniqueBlocks: blocksOf,
    exclusiveBlocks: blocksOf,
  };
  const held = new Set(Object.values(onDevice).flat());
  const residency: BlockResidency = { tierOf: (_, hash) => (held.has(hash) ? 'device' : 'host') };
  return { lineage, residency };
}

/** What the engine says it takes; without it a trial takes any action. */
const capabilities = ['kv.prefetch@1.0'];
const main = { sessionId: 'main' };
const child = { sessionId: 'child', parentSessionId: 'main' };
const childEnds = { ...child, sessionFinal: true };

test('brings back what left the device of the parent, once its child is done', async () => {
  const { book } = await openHintPolicy(policy, { parameters: { max_blocks: 2 }, context: { capabilities } });
  assert.deepEqual(book({ session: main, ...cache({ main: [1n, 2n, 3n, 4n] }) }).actions, []);
  const evicted = cache({ main: [1n], child: [1n, 9n] });
  assert.deepEqual(book({ session: child, ...evicted }).actions, []);
  const { actions, dropped } = book({ session: childEnds, ...evicted });
  assert.equal(dropped, null);
  assert.deepEqual(actions[0]?.payload, { block_hashes: BigUint64Array.of(2n, 3n) });
});

test('brings nothing back that is there, and nothing on another worker', async () => {
  const { book } = await openHintPolicy(policy, { context: { capabilities } });
  book({ session: main, ...cache({ main: [1n, 2n] }) });
  assert.deepEqual(book({ session: childEnds, ...cache({ main: [1n, 2n] }) }).actions, []);
  const elsewhere = { workerId: 7n, rank: 0 };
  assert.deepEqual(book({ session: childEnds, worker: elsewhere, ...cache({}) }).actions, []);
  assert.deepEqual(book({ session: childEnds }).actions, []);
});

test('refuses more blocks than the action takes', async () => {
  const refused = testHintPolicy(policy, { parameters: { max_blocks: 4097 } });
  await assert.rejects(refused, { code: 'PM_POLICY_PARAMETERS' });
});

test('costs no request anything in front of simulated workers', async () => {
  const { faults } = await replayTrial({ hints: [{ definition: policy }] });
  assert.deepEqual(faults, []);
});

test('keeps what the router expects of every hint policy', async () => {
  assert.deepEqual(await checkHintPolicy(policy, { context: cache({ s0: [1n], s1: [2n] }) }), []);
});
