import { expect, it } from 'vitest';
import { testWorkerSelection } from '../../testing/index.ts';
import { random } from './policy.ts';

it('spreads evenly: chi-square over 8 workers stays below the 0.1 % bound', async () => {
  const decisions = 8000;
  const trial = { candidates: Array.from({ length: 8 }, () => ({})), decisions, seed: 11 };
  const counts = new Array<number>(8).fill(0);
  for (const { row } of (await testWorkerSelection(random, trial)).decisions) counts[row]! += 1;
  const expected = decisions / 8;
  const chiSquare = counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
  expect(chiSquare).toBeLessThan(24.3);
});

it('draws the same workers again for the same seed only', async () => {
  const rows = async (seed: number) => {
    const trial = { candidates: Array.from({ length: 100 }, () => ({})), decisions: 30, seed };
    return (await testWorkerSelection(random, trial)).decisions.map(({ row }) => row);
  };
  expect(await rows(5)).toEqual(await rows(5));
  expect(await rows(5)).not.toEqual(await rows(6));
});
