// Run with: npm test, or pointsman plugins test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkWorkerSelection, replayTrial, testWorkerSelection } from 'pointsman/testing';
import { costAware } from '../src/cost-aware.ts';

/** Worker 1 costs ten times what worker 2 does; a second of waiting is worth 20 of worker 2. */
const parameters = {
  prices: [{ workers: [1], dollars_per_second: 0.01 }],
  dollars_per_second: 0.001,
  dollars_per_waiting_second: 0.02,
};
const request = { promptTokens: 800, expectedOutputTokens: 50 };

test('an idle cheap worker is taken, at the price of its time and of the wait', async () => {
  const { decisions } = await testWorkerSelection(costAware, { parameters, request, candidates: [{}, {}] });
  assert.equal(decisions[0].workerId, 2n);
  const dollars = decisions[0].costs.map((cost) => cost.toFixed(6));
  assert.deepEqual(dollars, ['0.013000', '0.003100']);
});

test('a long queue at the cheap worker is worth the dear one', async () => {
  const { decisions } = await testWorkerSelection(costAware, {
    parameters,
    request,
    candidates: [{}, { load: { activePrefillTokens: 8000 } }],
  });
  assert.equal(decisions[0].workerId, 1n);
});

test('ids beyond 2^53 keep their price', async () => {
  const last = 2n ** 64n - 1n;
  const { decisions } = await testWorkerSelection(costAware, {
    parameters: { prices: [{ workers: [last], dollars_per_second: 1 }] },
    candidates: [{}, { workerId: last }],
  });
  assert.equal(decisions[0].workerId, 1n);
});

test('a trace costs less GPU money than under the default policy', async () => {
  const bill = async (selection: Parameters<typeof replayTrial>[0]) => {
    const { faults, requestsPerWorker } = await replayTrial({ ...selection, workers: 2 });
    assert.deepEqual(faults, []);
    return requestsPerWorker
      .map((requests, worker) => requests * (worker === 0 ? 10 : 1))
      .reduce((a, b) => a + b);
  };
  const mine = await bill({ selection: { definition: costAware, parameters } });
  assert.ok(mine < (await bill({ selection: 'dynamo-default-cost-fn' })));
});

test('keeps what the router expects of every worker-selection policy', async () => {
  assert.deepEqual(await checkWorkerSelection(costAware, { parameters }), []);
});
