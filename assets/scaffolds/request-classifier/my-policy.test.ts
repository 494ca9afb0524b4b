// Run with: pointsman plugins test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkClassifier, testClassifier } from 'pointsman/testing';
import policy from './my-policy.ts';

test('lets one wait until another has ended, and refuses when too many wait', async () => {
  const trial = await testClassifier(policy, { parameters: { at_once: 2, waiting: 1 } });
  const sent = [1, 2, 3, 4].map(() => trial.send());
  const states = () => sent.map(({ state }) => state);
  assert.deepEqual(states(), ['classified', 'classified', 'waiting', 'refused']);
  sent[0]?.complete();
  await trial.settle();
  assert.deepEqual(states(), ['classified', 'classified', 'classified', 'refused']);
  await trial.close();
});

test('gives the place of a client that left to the next', async () => {
  const trial = await testClassifier(policy, { parameters: { at_once: 1 } });
  const [first, second, third] = [trial.send(), trial.send(), trial.send()];
  second.abort();
  first.complete();
  await trial.settle();
  assert.equal(third.state, 'classified');
  await trial.close();
});

test('keeps what the router expects of every request classifier', async () => {
  assert.deepEqual(await checkClassifier(policy, { parameters: { at_once: 8 } }), []);
});
