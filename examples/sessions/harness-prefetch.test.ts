// Run with: pointsman plugins test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BlockResidency, SessionLineage } from 'pointsman/plugin';
import { checkHintPolicy, openHintPolicy } from 'pointsman/testing';
import policy from './harness-prefetch.ts';

/** What sessions have on the device; the rest of what they had lies in host memory. */
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

const capabilities = ['kv.prefetch@1.0'];
const child = { sessionId: 'child', parentSessionId: 'main' };

test('with the end of a child the parent comes back, what is on the device already aside', async () => {
  const { book } = await openHintPolicy(policy, { parameters: { max_blocks: 2 }, context: { capabilities } });
  const full = cache({ main: [1n, 2n, 3n, 4n] });
  assert.deepEqual(book({ session: { sessionId: 'main' }, ...full }).actions, []);
  const evicted = cache({ main: [1n], child: [1n, 9n] });
  assert.deepEqual(book({ session: child, ...evicted }).actions, []);
  const { actions } = book({ session: { ...child, sessionFinal: true }, ...evicted });
  assert.deepEqual(actions[0]?.payload, { block_hashes: BigUint64Array.of(2n, 3n) });
});

test('sends nothing when all of it is there, or where nothing is known', async () => {
  const final = { ...child, sessionFinal: true };
  const { book } = await openHintPolicy(policy, { context: { capabilities } });
  assert.deepEqual(book({ session: final, ...cache({ main: [1n, 2n] }) }).actions, []);
  assert.deepEqual(book({ session: final }).actions, []);
});

test('keeps what the router expects of every hint policy', async () => {
  assert.deepEqual(await checkHintPolicy(policy, { context: cache({ s0: [1n], s1: [2n] }) }), []);
});
