// Run with: pointsman plugins test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkHintPolicy, openHintPolicy } from 'pointsman/testing';
import policy from './pin-once.ts';

const session = (sessionId: string) => ({ sessionId });

test('each worker is told of a session once', async () => {
  const { book } = await openHintPolicy(policy, { context: { capabilities: ['acme.pin@1.0'] } });
  const first = book({ session: session('a') });
  assert.deepEqual(
    first.actions.map(({ payload }) => payload),
    [{ session: 'a' }],
  );
  assert.deepEqual(book({ session: session('a') }).actions, []);
  assert.equal(book({ session: session('b') }).actions.length, 1);
  assert.equal(book({ session: session('a'), worker: { workerId: 7n, rank: 0 } }).actions.length, 1);
});

test('an instance of its own, as after a reload, tells it again', async () => {
  for (const _ of [1, 2]) {
    const { book } = await openHintPolicy(policy);
    assert.equal(book({ session: session('a') }).actions.length, 1);
  }
});

test('keeps what the router expects of every hint policy', async () => {
  assert.deepEqual(await checkHintPolicy(policy), []);
});
