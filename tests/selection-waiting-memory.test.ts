// Calls that wait for their turn keep the hashes of their prompts, not the bodies those came in.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { until } from './live-support.ts';
import { localService } from './support/selection-client.ts';

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');
const PARTITION = { model: 'default', routingGroup: 'default' };
const CALLS = 40;
/** A list of as many small numbers takes 8 bytes each. */
const TOKENS = 200_000;

it.each(['/select', '/select_and_reserve'])('of %s', async (path) => {
  const { client, service } = await localService({
    yaml: 'router: { use_kv_events: false, router_queue_threshold: 0 }',
  });
  await client.worker(1, { max_num_batched_tokens: 100, block_size: 16 });
  await client.post('/select_and_reserve', { token_ids: [1], selection_id: 'busy' });
  const body = `{"token_ids":[${Array.from({ length: TOKENS }, (_, at) => at % 10).join()}]}`;
  const { road } = service.core;
  const send = async (count: number): Promise<Promise<{ readonly status: number }>[]> => {
    const before = road.waitingOf(PARTITION).requests;
    const calls = Array.from({ length: count }, () => client.post(path, body));
    await until('all wait', () => road.waitingOf(PARTITION).requests === before + count);
    return calls;
  };
  const used = async (): Promise<number> => {
    await new Promise((resolve) => setImmediate(resolve));
    collect();
    return process.memoryUsage().heapUsed;
  };
  const answers = await send(4);
  const before = await used();
  answers.push(...(await send(CALLS)));
  expect((await used()) - before).toBeLessThan((CALLS * TOKENS * 8) / 4);
  await service.stop();
  for (const answer of answers) expect((await answer).status).toBe(503);
});
