// Tests of the policies beside this file.
import { testHintPolicy, testWorkerSelection } from 'pointsman/testing';
import { expect, test } from 'vitest';
import fetchLong from './fetch-long.ts';
import spread from './spread.ts';

test('fetches what a peer holds', async () => {
  const { actions, dropped, error } = await testHintPolicy(fetchLong, {
    parameters: { min_tokens: 32 },
    context: { copySources: [{ source: { workerId: 2n, rank: 0 }, blockHashes: [11n, 12n, 13n] }] },
  });
  expect([dropped, error]).toEqual([null, null]);
  expect(actions[0]?.action_type).toBe('kv.fetch');
});

test('leaves a busy worker alone, whatever it has cached', async () => {
  const { decisions } = await testWorkerSelection(spread, {
    parameters: { max_requests: 2 },
    candidates: [{ cache: { deviceBlocks: 8 }, load: { activeRequests: 2 } }, {}],
  });
  expect(decisions[0]).toMatchObject({ row: 1, droppedBy: ['too-busy', null] });
});
