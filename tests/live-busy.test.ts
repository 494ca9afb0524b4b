// Busy thresholds in the built program: set at run time, in force at the next request, given up when the file says otherwise.
import { afterAll, expect, it } from 'vitest';
import { eventually, promptOf, routerYaml, serve, simulators, stopAll } from './support/live-processes.ts';

afterAll(stopAll);

it('thresholds set through the admin API refuse the next request at every path, until the file changes them', async () => {
  const { engines } = await simulators(1, '--speed', '1');
  const yaml = routerYaml([{ url: engines[0]!.url }], '');
  const { url, admin, write } = await serve({ 'router.yaml': yaml });
  const ask = (path: string, body: object): Promise<Response> =>
    fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'tiny', max_tokens: 2, ...body }),
    });
  const set = async (thresholds: object): Promise<unknown> => {
    const body = JSON.stringify({ model: 'tiny', ...thresholds });
    return (await fetch(`${admin}/busy_threshold`, { method: 'POST', body })).json();
  };
  const status = async (): Promise<{ busy: boolean }[]> =>
    (await (await fetch(`${admin}/workers`)).json()) as { busy: boolean }[];

  const leaving = new AbortController();
  const long = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'tiny', prompt: promptOf(1, 64), max_tokens: 100_000, stream: true }),
    signal: leaving.signal,
  });
  expect(long.status).toBe(200);
  expect((await ask('/v1/completions', { prompt: promptOf(2, 32) })).status).toBe(200);
  expect((await status()).map(({ busy }) => busy)).toEqual([false]);

  expect(await set({ active_decode_blocks_threshold: 0 })).toMatchObject({
    model: 'tiny',
    active_decode_blocks_threshold: 0,
    source: 'admin',
    untested: {},
  });
  const messages = [{ role: 'user', content: 'hello' }];
  for (const refused of [
    await ask('/v1/completions', { prompt: promptOf(3, 32) }),
    await ask('/v1/chat/completions', { messages }),
  ]) {
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect(await refused.json()).toMatchObject({
      error: {
        code: 'PM_SELECTION_OVERLOADED',
        details: { reason: 'workers_busy', model: 'tiny', busy_ranks: 1 },
      },
    });
  }
  expect((await status()).map(({ busy }) => busy)).toEqual([true]);
  const metrics = await (await fetch(`${admin}/metrics`)).text();
  expect(metrics).toContain('pointsman_busy_workers{model="tiny"} 1');
  expect(metrics).toContain('pointsman_overload_refusals_total{model="tiny",reason="workers_busy"} 2');

  // A reload that says nothing of it leaves it; one that does takes its place.
  write('router.yaml', `${yaml}limits: { drain: 2s }\n`);
  await eventually('the first reload', async () => {
    return (await (await fetch(`${admin}/config`)).text()).includes('"drainMs":2000') || undefined;
  });
  expect((await ask('/v1/completions', { prompt: promptOf(4, 32) })).status).toBe(429);
  write('router.yaml', yaml.replace('block_size: 16,', 'block_size: 16, active_decode_blocks_threshold: 1,'));
  await eventually('the second reload', async () => {
    const { thresholds } = (await (await fetch(`${admin}/busy_threshold`)).json()) as {
      thresholds: { source: string }[];
    };
    return thresholds[0]?.source === 'configuration' || undefined;
  });
  expect((await ask('/v1/completions', { prompt: promptOf(5, 32) })).status).toBe(200);
  leaving.abort();
});
