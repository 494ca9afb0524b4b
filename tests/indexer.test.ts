// `pointsman indexer` as a process, and the indexer inside `serve`.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, it } from 'vitest';
import {
  completeOn,
  eventually,
  promptOf,
  routerYaml,
  serve,
  simulators,
  stopAll,
} from './support/live-processes.ts';

const MAIN = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url));
interface Started {
  readonly child: ChildProcess;
  /** Exit code and signal. */
  readonly closed: Promise<unknown[]>;
  /** The first line on stdout. */
  readonly line: Promise<unknown[]>;
}

const children: Started[] = [];
const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
  for (const { child } of children.splice(0)) child.kill('SIGKILL');
  await stopAll();
});

function indexer(...args: string[]): Started {
  const child = spawn(process.execPath, [MAIN, 'indexer', '--port', '0', '--json', ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const started = {
    child,
    closed: once(child, 'close'),
    line: once(createInterface({ input: child.stdout }), 'line'),
  };
  child.stderr.resume();
  children.push(started);
  return started;
}

async function addressOf({
  line,
}: ReturnType<typeof indexer>): Promise<{ url: string; recovered_from: string | null }> {
  return JSON.parse(String((await line)[0])) as { url: string; recovered_from: string | null };
}

const PROMPT = promptOf(3, 64);

async function deviceTokens(url: string, model: string): Promise<number> {
  const answer = await fetch(`${url}/query`, {
    method: 'POST',
    body: JSON.stringify({ model_name: model, token_ids: PROMPT }),
  });
  const { scores } = (await answer.json()) as { scores?: Record<string, Record<string, number>> };
  return scores?.['1']?.['0'] ?? 0;
}

it('hears an engine, hands its blocks to a second process, and ends in order', async () => {
  const { engines } = await simulators(1);
  const [engine] = engines;
  const workers = ['--block-size', '16', '--model-name', 'tiny', '--workers', `1=${engine?.kv_events}`];
  const first = indexer(...workers);
  const { url, recovered_from: none } = await addressOf(first);
  expect(none).toBeNull();
  await eventually('it listens', async () => {
    const text = await (await fetch(`${url}/workers`)).text();
    return text.includes('"status":"active"') ? true : undefined;
  });
  const body = JSON.stringify({ model: engine?.model, prompt: PROMPT, max_tokens: 1 });
  await (await fetch(`${engine?.url}/v1/completions`, { method: 'POST', body })).text();
  await eventually('the blocks are known', async () =>
    (await deviceTokens(url, 'tiny')) === 64 ? true : undefined,
  );
  const second = await addressOf(indexer(...workers, '--peers', url));
  expect(second.recovered_from).toBe(url);
  expect(await deviceTokens(second.url, 'tiny')).toBe(64);
  first.child.kill('SIGTERM');
  expect(await first.closed).toEqual([0, null]);
});

it('asks the engine of a rank that names where for what it told before', async () => {
  const { engines } = await simulators(1);
  const [engine] = engines;
  const body = JSON.stringify({ model: engine?.model, prompt: PROMPT, max_tokens: 1 });
  await (await fetch(`${engine?.url}/v1/completions`, { method: 'POST', body })).text();
  const { url } = await addressOf(indexer());
  const rank = { instance_id: 1, model_name: 'tiny', block_size: 16, endpoint: engine?.kv_events };
  const registered = await fetch(`${url}/register`, {
    method: 'POST',
    body: JSON.stringify({ ...rank, replay_endpoint: engine?.kv_events_replay }),
  });
  expect(registered.status).toBe(201);
  await eventually('the blocks are known', async () =>
    (await deviceTokens(url, 'tiny')) === 64 ? true : undefined,
  );
});

it('asks the engines of --replay-endpoints, and writes requests down in its access log', async () => {
  const { engines } = await simulators(1);
  const [engine] = engines;
  const body = JSON.stringify({ model: engine?.model, prompt: PROMPT, max_tokens: 1 });
  await (await fetch(`${engine?.url}/v1/completions`, { method: 'POST', body })).text();
  const folder = await mkdtemp(join(tmpdir(), 'pointsman-indexer-'));
  folders.push(folder);
  const [log, moved] = [join(folder, 'access.log'), join(folder, 'access.log.1')];
  const { child, closed, line } = indexer(
    ...['--block-size', '16', '--model-name', 'tiny', '--workers', `1=${engine?.kv_events}`],
    ...['--replay-endpoints', `1:0=${engine?.kv_events_replay}`],
    ...['--access-log', log, '--access-log-local-time', '--trace-id-header', 'X-My-Trace'],
  );
  const { url } = JSON.parse(String((await line)[0])) as { url: string };
  await eventually('the blocks are known', async () =>
    (await deviceTokens(url, 'tiny')) === 64 ? true : undefined,
  );
  await fetch(`${url}/workers?model_name=tiny`, { headers: { 'x-my-trace': 'abc' } });
  const post = (path: string) => fetch(`${url}${path}`, { method: 'POST', body: '{}' });
  await rename(log, moved);
  expect((await post('/reopen_logs')).status).toBe(200);
  await fetch(`${url}/nowhere?secret`);
  child.kill('SIGTERM');
  expect(await closed).toEqual([0, null]);
  const linesOf = async (file: string): Promise<Record<string, unknown>[]> =>
    (await readFile(file, 'utf8'))
      .trimEnd()
      .split('\n')
      .map((text) => JSON.parse(text) as Record<string, unknown>);
  expect((await linesOf(moved)).at(-1)).toMatchObject({
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]{12}[+-]\d\d:\d\d$/),
    remote: '127.0.0.1',
    method: 'GET',
    path: '/workers',
    status: 200,
    trace_id: 'abc',
  });
  expect((await linesOf(log)).map(({ path, status }) => [path, status])).toEqual([
    ['/reopen_logs', 200],
    ['/nowhere', 404],
  ]);
});

it('inside serve it listens to the workers of the router', async () => {
  const { engines } = await simulators(1);
  const yaml = routerYaml(
    engines.map(({ url }) => ({ url })),
    'services: { indexer: { port: 0 } }',
  );
  const router = await serve({ 'router.yaml': yaml });
  const line = await eventually('it says its address', async () =>
    router
      .log()
      .split('\n')
      .find((entry) => entry.includes('the indexer is up')),
  );
  const { url } = JSON.parse(line) as { url: string };
  await eventually('it listens', async () => {
    const text = await (await fetch(`${url}/workers`)).text();
    return text.includes('"status":"active"') ? true : undefined;
  });
  await completeOn(router, 1, PROMPT);
  await eventually('the blocks are known', async () =>
    (await deviceTokens(url, 'tiny')) === 64 ? true : undefined,
  );
});

it('refuses workers without a block size and lists that are none, with exit code 2', async () => {
  for (const args of [
    ['--workers', '1=tcp://127.0.0.1:1'],
    ['--workers', 'x'],
    ['--peers', 'nowhere'],
    ['--workers', '1=tcp://127.0.0.1:1', '--block-size', '4', '--replay-endpoints', '2=tcp://127.0.0.1:1'],
    ['--access-log', '/nowhere/at/all'],
    ['--trace-id-header', 'no header'],
  ]) {
    expect(await indexer(...args).closed).toEqual([2, null]);
  }
});
