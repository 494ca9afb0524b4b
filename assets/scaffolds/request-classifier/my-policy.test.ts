// Run with: pointsman plugins test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkClassifier, testClassifier } from 'pointsman/testing';
import policy from './my-policy.ts';

const of = (sessionId: string) => ({ session: { sessionId, agentHeaders: {} } });

test('the third request of a session waits for the end of one before; another session goes on', async () => {
  const trial = await testClassifier(policy, { parameters: { most: 2 } });
  const [first, , third, other] = [of('a'), of('a'), of('a'), of('b')].map((request) => trial.send(request));
  assert.deepEqual([third?.state, other?.state], ['waiting', 'classified']);
  first?.complete();
  await trial.settle();
  assert.equal(third?.state, 'classified');
});

test('who leaves while it waits holds nobody up', async () => {
  const trial = await testClassifier(policy, { parameters: { most: 1 } });
  const [first, second, third] = [of('a'), of('a'), of('a')].map((request) => trial.send(request));
  second?.abort();
  first?.complete();
  await trial.settle();
  assert.equal(third?.state, 'classified');
});

test('too many are refused', async () => {
  const trial = await testClassifier(policy, { parameters: { most: 1, waiting: 1 } });
  const states = [of('a'), of('a'), of('a')].map((request) => trial.send(request).state);
  assert.deepEqual(states, ['classified', 'waiting', 'refused']);
});

test('keeps what the router expects of every classifier', async () => {
  assert.deepEqual(await checkClassifier(policy, { parameters: { waiting: 1000 } }), []);
});
