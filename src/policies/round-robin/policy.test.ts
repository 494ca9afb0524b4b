import { expect, it } from 'vitest';
import { testWorkerSelection } from '../../testing/index.ts';
import { roundRobin } from './policy.ts';

it('gives every worker its turn in order and asks for nothing', async () => {
  const { decisions, needs } = await testWorkerSelection(roundRobin, {
    candidates: [{}, {}, {}],
    decisions: 7,
  });
  expect(decisions.map(({ row }) => row)).toEqual([0, 1, 2, 0, 1, 2, 0]);
  expect(decisions[0].by).toBe('policy');
  expect(Object.values(needs).some(Boolean)).toBe(false);
});

it('takes no parameters', async () => {
  const trial = testWorkerSelection(roundRobin, { candidates: [{}], parameters: { start: 3 } });
  await expect(trial).rejects.toThrow('round-robin: parameters.start: unknown key "start"');
});
