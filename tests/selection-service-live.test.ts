// `pointsman select-service` as a process, with engines whose KV events it hears, and inside `serve`.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, it } from 'vitest';
import type { SimulatorAddress } from '../src/simulator/index.ts';
import { eventually, promptOf, routerYaml, serve, simulators, stopAll } from './support/live-processes.ts';
import { type Json, SelectionClient } from './support/selection-client.ts';

const MAIN = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url));
const PROMPT = promptOf(3, 64);
const HINTS = [
  'worker_selection: { aggregated: { type: dynamo-default-cost-fn, hints: [{ type: kv_fetch }] } }',
  'worker_selection: { aggregated: { type: kvcr, parameters: { shared_cache_multiplier: 0.5 } } }',
];
const children: ChildProcess[] = [];
const closers: (() => void)[] = [];

afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  for (const close of closers.splice(0)) close();
  await stopAll();
});

interface Service {
  readonly client: SelectionClient;
  readonly child: ChildProcess;
  readonly closed: Promise<unknown[]>;
  readonly log: () => string;
}

async function selectService(
  env: Readonly<Record<string, string>> = {},
  ...args: string[]
): Promise<Service> {
  const child = spawn(process.execPath, [MAIN, 'select-service', '--port', '0', '--json', ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  children.push(child);
  let log = '';
  child.stderr.on('data', (part: Buffer) => {
    log += part.toString();
  });
  const closed = once(child, 'close');
  const [line] = await Promise.race([once(createInterface({ input: child.stdout }), 'line'), closed]);
  if (typeof line !== 'string') throw new Error(`select-service ended: ${log}`);
  const { url } = JSON.parse(line) as { url: string };
  return { client: new SelectionClient(url), child, closed, log: () => log };
}

/** Something that workers could be asked at, and who asked. */
async function watchedEndpoint(): Promise<{ readonly url: string; readonly connections: () => number }> {
  let connections = 0;
  const server = createServer((_, response) => response.end());
  server.on('connection', () => {
    connections += 1;
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections: () => connections,
  };
}

async function warm(url: string, model: string, prompt: readonly number[]): Promise<void> {
  const body = JSON.stringify({ model, prompt, max_tokens: 1 });
  expect((await fetch(`${url}/v1/completions`, { method: 'POST', body })).status).toBe(200);
}

/** An engine as a client registers it, ids from 2^63. */
function registration(engine: SimulatorAddress, index: number, endpoint: string): Json {
  return {
    worker_id: 2n ** 63n + BigInt(index),
    endpoint: `${endpoint}/${index}`,
    kv_events_endpoint: engine.kv_events,
    replay_endpoint: engine.kv_events_replay,
    block_size: 16,
    router_hint_worker_type: 'aggregated',
    router_hint_source_control_endpoints: { '0': `tcp://10.0.0.${index + 1}:7000` },
  };
}

it('hears the KV events of registered workers and connects to nobody’s endpoint', async () => {
  const { engines } = await simulators(2);
  const [one] = engines;
  if (one === undefined) throw new Error('two engines were asked for');
  const endpoint = await watchedEndpoint();
  const { client, child, closed, log } = await selectService();
  for (const [index, engine] of engines.entries()) {
    const worker = registration(engine, index, endpoint.url);
    expect((await client.post('/workers', worker)).value.lifecycle).toBe('schedulable');
  }
  await warm(one.url, one.model, PROMPT);
  const selected = await eventually('the blocks are known', async () => {
    const { value } = await client.post('/select', { token_ids: PROMPT, selection_id: 's' });
    return (value.overlap as Json).gpu === 64 ? value : undefined;
  });
  expect(selected).toMatchObject({
    worker_id: 2n ** 63n,
    effective_prefill_tokens: 0,
    overlap: { longest_matched: 64, gpu: 64, dp: { '0': 64 }, cpu: 64, disk: 64 },
  });
  const scores = await client.post('/overlap_scores', { token_ids: PROMPT });
  expect(scores.value.workers).toMatchObject([
    { worker_id: 2n ** 63n, device_blocks: 4, router_credit_blocks: 4 },
    { worker_id: 2n ** 63n + 1n, device_blocks: 0, router_credit_blocks: 0 },
  ]);
  const dump = (await client.get('/dump')).value['default:default'] as { events: unknown[] };
  expect(dump.events.length).toBeGreaterThan(0);
  await client.delete(`/workers/${2n ** 63n}`);
  const after = await client.post('/select', { token_ids: PROMPT });
  expect(after.value).toMatchObject({ worker_id: 2n ** 63n + 1n, overlap: { gpu: 0 } });
  expect(endpoint.connections()).toBe(0);
  child.kill('SIGTERM');
  expect(await closed).toEqual([0, null]);
  expect(log()).not.toMatch(/"level":"(?:warn|error)"/);
});

/** A configuration in a file. */
function configFile(yaml: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'pointsman-selection-'));
  closers.push(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'router.yaml');
  writeFileSync(path, yaml);
  return path;
}

it.each(HINTS)(
  'hands out hints for bookings and for nothing else, and names no source that is gone: %s',
  async (yaml) => {
    const { engines } = await simulators(2);
    const [one] = engines;
    if (one === undefined) throw new Error('two engines were asked for');
    const { client } = await selectService({}, '--config', configFile(yaml));
    for (const [index, engine] of engines.entries())
      await client.post('/workers', registration(engine, index, 'http://127.0.0.1:1'));
    await warm(one.url, one.model, PROMPT);
    await eventually('the blocks are known', async () => {
      const { value } = await client.post('/select', { token_ids: PROMPT });
      return (value.overlap as Json).gpu === 64 ? true : undefined;
    });
    const cold = { worker_id: 2n ** 63n + 1n, dp_rank: 0 };
    const prompt = { token_ids: PROMPT, pinned_worker: cold };
    const hint = {
      protocol_version: '0.1',
      actions: [
        {
          action_type: 'kv.fetch',
          payload: { source_control_endpoint: 'tcp://10.0.0.1:7000', block_hashes: expect.any(Array) },
        },
      ],
    };
    const direct = await client.post('/select_and_reserve', { ...prompt, selection_id: 'direct' });
    expect(direct.value).toMatchObject({ ...cold, kv_hint: { ...hint, message_id: 'direct' } });
    const hashes = (direct.value.kv_hint as { actions: { payload: { block_hashes: unknown[] } }[] })
      .actions[0];
    expect(hashes?.payload.block_hashes).toHaveLength(4);
    // Engines' hashes are full u64: at least one of four needs more than a double has.
    expect(hashes?.payload.block_hashes.some((hash) => typeof hash === 'bigint')).toBe(true);
    for (const selection_id of ['replayed', 'bereft']) {
      const selected = await client.post('/select', { ...prompt, selection_id });
      expect(selected.status).toBe(200);
      expect(selected.value).not.toHaveProperty('kv_hint');
    }
    const replayed = await client.post('/reservations', { selection_id: 'replayed' });
    expect(replayed.value).toMatchObject({ ...cold, kv_hint: { ...hint, message_id: 'replayed' } });
    const explicit = { token_ids: PROMPT, selection_id: 'explicit', ...cold };
    const named = await client.post('/reservations', explicit);
    expect(named.status).toBe(201);
    expect(named.value).not.toHaveProperty('kv_hint');
    await client.delete(`/workers/${2n ** 63n}`);
    const bereft = await client.post('/reservations', { selection_id: 'bereft' });
    expect(bereft).toMatchObject({ status: 201, value: cold });
    expect(bereft.value).not.toHaveProperty('kv_hint');
  },
);

it('inside serve chooses among the router’s workers by the same loads, and its own workers get nothing from the gateway', async () => {
  const { engines } = await simulators(2);
  const yaml = routerYaml(
    engines.map(({ url }) => ({ url })),
    'services: { selection: { port: 0 } }',
  );
  const router = await serve({ 'router.yaml': yaml });
  const url = await eventually(
    'the service is up',
    async () =>
      /"msg":"the selection service is up".*"url":"([^"]+)"/.exec(router.log())?.[1] ??
      /"url":"([^"]+)".*"msg":"the selection service is up"/.exec(router.log())?.[1],
  );
  const client = new SelectionClient(url);
  const listed = (await client.get('/workers')).value;
  expect(listed).toMatchObject([
    { worker_id: 1, model_name: 'tiny', lifecycle: 'schedulable' },
    { worker_id: 2, model_name: 'tiny', lifecycle: 'schedulable' },
  ]);
  expect((await client.worker(1, { model_name: 'tiny' })).status).toBe(409);
  const endpoint = await watchedEndpoint();
  const own = { worker_id: 7, model_name: 'tiny', endpoint: endpoint.url, block_size: 16 };
  const registered = await client.post('/workers', { ...own, kv_events_endpoint: 'tcp://127.0.0.1:1' });
  expect(registered.value.lifecycle).toBe('schedulable');
  const selected = await client.post('/select', {
    model_name: 'tiny',
    token_ids: PROMPT,
    allowed_worker_ids: [7],
  });
  expect(selected.value.worker_id).toBe(7);
  // Both of the router's own are loaded, and still nothing goes to the idle one that it must not connect to.
  for (const worker_id of [1, 2]) {
    const held = { model_name: 'tiny', token_ids: promptOf(9, 4096), worker_id };
    expect((await client.post('/reservations', { ...held, selection_id: `r${worker_id}` })).status).toBe(201);
  }
  for (let at = 0; at < 4; at += 1) {
    const body = JSON.stringify({ model: 'tiny', prompt: `hello ${at}`, max_tokens: 1 });
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${router.url}/v1/completions`, { method: 'POST', headers, body });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('x-pointsman-worker')).toMatch(/^[12]:0$/);
  }
  expect(endpoint.connections()).toBe(0);
});

it('serves other machines only with a token, and then nobody without it', async () => {
  const wrong = spawn(process.execPath, [MAIN, 'select-service', '--host', '0.0.0.0', '--port', '0']);
  children.push(wrong);
  expect((await once(wrong, 'close'))[0]).toBe(2);
  const yaml = 'services: { selection: { host: 0.0.0.0, token: { env: SELECTION_TOKEN } } }';
  const { client } = await selectService({ SELECTION_TOKEN: 'abc' }, '--config', configFile(yaml));
  const local = new SelectionClient(client.url.replace('0.0.0.0', '127.0.0.1'));
  expect((await local.get('/workers')).status).toBe(401);
  const headers = { authorization: 'Bearer abc' };
  expect((await local.post('/select', { token_ids: [1] }, headers)).status).toBe(503);
  expect((await local.post('/select', { token_ids: [1] }, { authorization: 'Bearer abd' })).status).toBe(401);
});
