// Tests of the classifier beside this file.
import { checkClassifier, testClassifier } from 'pointsman/testing';
import { expect, test } from 'vitest';
import fewAtOnce from './few-at-once.ts';

test('the third waits until one has ended; the fourth is refused', async () => {
  const trial = await testClassifier(fewAtOnce, { parameters: { most: 2, waiting: 1 } });
  const sent = [1, 2, 3, 4].map(() => trial.send());
  const states = () => sent.map((request) => request.state);
  expect(states()).toEqual(['classified', 'classified', 'waiting', 'refused']);
  sent[0]?.complete();
  await trial.settle();
  expect(states()).toEqual(['classified', 'classified', 'classified', 'refused']);
});

test('a client that leaves while it waits holds nobody up', async () => {
  const trial = await testClassifier(fewAtOnce, { parameters: { most: 1 } });
  const [first, second, third] = [trial.send(), trial.send(), trial.send()];
  second.abort();
  first.complete();
  await trial.settle();
  expect(third.state).toBe('classified');
});

test('keeps what a router expects of a classifier', async () => {
  expect(await checkClassifier(fewAtOnce, { parameters: { most: 8 } })).toEqual([]);
});
