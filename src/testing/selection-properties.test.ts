import { describe, expect, it } from 'vitest';
import {
  defineWorkerSelectionPolicy,
  pickLowestCost,
  pickWorker,
  scoreWorkers,
  type WorkerScorer,
} from '../plugin/index.ts';
import { checkWorkerSelection, type SelectionProperty } from './index.ts';

function withScorer(scorer: WorkerScorer) {
  return defineWorkerSelectionPolicy({
    type: 'wrong',
    create: ({ rng }) => ({ scorers: [scorer], picker: pickLowestCost(rng) }),
  });
}

const perPrompt = withScorer(
  scoreWorkers({
    inputs: ['cache'],
    score({ cache, count }, costs, request) {
      for (let row = 0; row < count; row += 1) {
        costs[row] = 1 / (request.promptTokens - (cache.deviceBlocks[row] ?? 0) * request.blockSize);
      }
    },
  }),
);
const byRow = withScorer(
  scoreWorkers({
    score({ count }, costs) {
      for (let row = 0; row < count; row += 1) costs[row] = row;
    },
  }),
);
const cacheAlone = withScorer(
  scoreWorkers({
    inputs: ['cache'],
    score({ cache, count }, costs) {
      for (let row = 0; row < count; row += 1) costs[row] = -(cache.deviceBlocks[row] ?? 0);
    },
  }),
);
const dice = withScorer(
  scoreWorkers({
    score({ count }, costs) {
      for (let row = 0; row < count; row += 1) costs[row] = Math.random();
    },
  }),
);
const first = defineWorkerSelectionPolicy({
  type: 'first',
  create: () => ({ picker: pickWorker({ pick: () => 0 }) }),
});
const second = defineWorkerSelectionPolicy({
  type: 'second',
  create: () => ({ picker: pickWorker({ pick: () => 1 }) }),
});

async function broken(...args: Parameters<typeof checkWorkerSelection>): Promise<SelectionProperty[]> {
  return (await checkWorkerSelection(...args)).map(({ property }) => property);
}

describe('checkWorkerSelection', () => {
  const timeless = ['valid', 'repeatable', 'permutation-stable', 'no-starvation'] as const;

  it.each([
    ['divides by what can be zero', perPrompt, ['valid']],
    ['names a row that is not always there', second, ['valid', 'no-starvation']],
    ['costs a row instead of a worker', byRow, ['permutation-stable', 'no-starvation']],
    ['always takes the first', first, ['no-starvation']],
    ['follows the cache wherever it is', cacheAlone, ['no-starvation']],
    ['throws dice of its own', dice, ['repeatable']],
  ] as const)('tells of a policy that %s', async (_, definition, expected) => {
    expect(await broken(definition, { properties: timeless })).toEqual(expected);
  });

  it('tells of a policy that takes longer than a decision may', async () => {
    const slow = withScorer(
      scoreWorkers({
        score({ count }, costs) {
          const until = performance.now() + 2;
          while (performance.now() < until);
          costs.fill(0, 0, count);
        },
      }),
    );
    const [fault] = await checkWorkerSelection(slow, { properties: ['within-budget'] });
    expect(fault?.message).toMatch(/^a call takes \d+\.\d\d ms, the budget is 1 ms$/);
  });

  it('names the input, and checks only what is asked for', async () => {
    const [fault] = await checkWorkerSelection(second, { properties: ['valid'] });
    expect(fault?.message).toContain('[PM_SELECTION_INVALID_PICK] for request {"blockSize":16');
    expect(fault?.message).toContain('candidates [{"workerId":1,"rank":0');
    expect(await broken(byRow, { properties: ['valid', 'repeatable'] })).toEqual([]);
  });
});
