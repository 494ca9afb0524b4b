import { expect, it } from 'vitest';
import { checkClassifier, testClassifier } from '../../testing/index.ts';
import { passThrough } from './policy.ts';

it('changes nothing, hears nothing, and keeps what a router expects', async () => {
  const trial = await testClassifier(passThrough);
  const request = trial.send();
  request.complete();
  expect([request.state, request.overrides, request.waitedMs, trial.events]).toEqual([
    'classified',
    {},
    0,
    [],
  ]);
  expect(await checkClassifier(passThrough)).toEqual([]);
});

it('takes no parameters', async () => {
  const trial = testClassifier(passThrough, { parameters: { class: 'x' } });
  await expect(trial).rejects.toThrow('pass-through: parameters.class: unknown key "class"');
});
