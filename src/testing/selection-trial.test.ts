import { expect, it } from 'vitest';
import { defineWorkerSelectionPolicy, pickLowestCost, scoreWorkers } from '../plugin/index.ts';
import { type SelectionTrial, testWorkerSelection } from './index.ts';

const longest = defineWorkerSelectionPolicy({
  type: 'longest',
  create: ({ rng }) => ({
    scorers: [
      scoreWorkers({
        inputs: ['cache'],
        score({ count, cache }, costs) {
          for (let row = 0; row < count; row += 1) costs[row] = -(cache.deviceBlocks[row] ?? 0);
        },
      }),
    ],
    picker: pickLowestCost(rng),
  }),
});

it('decides among candidates written by hand', async () => {
  const { decisions } = await testWorkerSelection(longest, {
    candidates: [{}, { cache: { deviceBlocks: 8 } }],
  });
  expect(decisions[0]).toMatchObject({ row: 1, workerId: 2n, costs: [0, -8] });
});

it('says what it needs when the candidates are missing, as JavaScript and misspelt keys leave them', async () => {
  const trial: Partial<SelectionTrial> = JSON.parse('{ "workers": [{}] }');
  await expect(testWorkerSelection(longest, trial as SelectionTrial)).rejects.toThrow(
    'testWorkerSelection needs candidates, a list with one entry per worker, for example { candidates: [{}, { cache: { deviceBlocks: 8 } }] }',
  );
});

it('names the input that a component reads and does not declare', async () => {
  const forgot = defineWorkerSelectionPolicy({
    type: 'forgot',
    create: ({ rng }) => ({
      scorers: [
        scoreWorkers({
          inputs: ['cache'],
          // @ts-expect-error it is not declared
          score: ({ load }, costs) => void costs.fill(load.activeRequests[0]),
        }),
      ],
      picker: pickLowestCost(rng),
    }),
  });
  await expect(testWorkerSelection(forgot, { candidates: [{}] })).rejects.toMatchObject({
    code: 'PM_PLUGIN_THREW',
    cause: {
      message:
        "Cannot read properties of undefined (reading 'activeRequests'); load is there only for those who list 'load' under inputs",
    },
  });
});
