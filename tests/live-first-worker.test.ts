// Requests before the first worker, in the built program: they wait for the worker that a reload brings, or are refused in time.
import { afterAll, expect, it } from 'vitest';
import {
  eventually,
  metric,
  promptOf,
  routerYaml,
  serve,
  simulators,
  stopAll,
} from './support/live-processes.ts';

afterAll(stopAll);

const body = (seed: number): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ model: 'tiny', prompt: promptOf(seed, 32), max_tokens: 2 }),
});

it('a request that comes before any worker is answered once a reload brings one, and refused after its wait', async () => {
  const { engines } = await simulators(1);
  const limits = (wait: string): string =>
    `limits: { first_worker_wait: ${wait}, first_worker_waiting: 2 }\n`;
  const { url, admin, write } = await serve({
    'router.yaml': routerYaml([], limits('60s')).replace('workers:\n', 'workers: []\n'),
  });
  const answers = [fetch(`${url}/v1/completions`, body(1)), fetch(`${url}/v1/completions`, body(2))];
  await eventually('both wait', async () => {
    return (await metric(admin, 'pointsman_requests_held')) === 2 || undefined;
  });
  const refused = await fetch(`${url}/v1/completions`, body(3));
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
  expect(await refused.json()).toMatchObject({ error: { code: 'PM_SELECTION_NO_ENDPOINTS' } });
  write('router.yaml', routerYaml([{ url: engines[0]!.url }], limits('60s')));
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200]);
  expect(await metric(admin, 'pointsman_requests_held')).toBe(0);

  write('router.yaml', routerYaml([], limits('200ms')).replace('workers:\n', 'workers: []\n'));
  await eventually('the worker left', async () => {
    const workers = (await (await fetch(`${admin}/workers`)).json()) as unknown[];
    return workers.length === 0 || undefined;
  });
  const late = await fetch(`${url}/v1/completions`, body(4));
  expect([late.status, late.headers.get('retry-after')]).toEqual([503, '1']);
  const { error } = (await late.json()) as { error: { message: string } };
  expect(error.message).toMatch(/; none came within \d+ ms \(limits\.first_worker_wait\)$/);
});
