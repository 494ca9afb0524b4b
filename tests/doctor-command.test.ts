// The command `pointsman doctor`: what it prints, where, and how it ends.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { runCli } from '../src/cli/run.ts';
import { router } from './live-support.ts';
import { type FaultyEngine, faultyEngine, faultyFleetYaml } from './support/faulty-engine.ts';
import { EVENTS, stopDoubles, vllm } from './support/vllm-doubles.ts';

const VLLM_ARGS = ['--block-size', '16', '--enable-prompt-tokens-details', '--kv-events-config', EVENTS];

const running: FaultyEngine[] = [];
let folder = '';
afterEach(async () => {
  await stopDoubles();
  for (const engine of running.splice(0)) engine.close();
  if (folder !== '') rmSync(folder, { recursive: true, force: true });
});

async function doctor(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  let out = '';
  let err = '';
  const code = await runCli(['doctor', ...args], {
    out: (text) => {
      out += text;
    },
    err: (text) => {
      err += text;
    },
    env: {},
    fancy: false,
    exit: () => undefined,
  });
  return { code, out, err };
}

test('a healthy fleet is one line on stdout and exit code 0', async () => {
  running.push(await faultyEngine([]), await faultyEngine([]));
  folder = mkdtempSync(join(tmpdir(), 'pointsman-doctor-'));
  const file = join(folder, 'router.yaml');
  writeFileSync(file, faultyFleetYaml(running));
  const { code, err, out } = await doctor('--config', file);
  expect({ code, out }).toEqual({ code: 0, out: 'Healthy: all 2 workers do what the router believes.\n' });
  expect(err).toContain('sending probe prompts');
});

test('the workers of a running router are asked, and a fault is exit code 1 with its remedy', async () => {
  running.push(await faultyEngine(['hybrid groups']), await faultyEngine([]));
  const on = await router(faultyFleetYaml(running));
  const { code, out } = await doctor('--admin', on.adminUrl, '--json');
  expect(code).toBe(1);
  const answer: unknown = JSON.parse(out);
  expect(answer).toMatchObject({
    healthy: false,
    workers: [{ url: running[0]?.url }, { url: running[1]?.url }],
    findings: [{ code: 'hybrid_groups', worker: 1, rank: 0 }],
  });
});

test('a running router may have its token ids from its engines', async () => {
  running.push(await faultyEngine([]));
  const yaml = faultyFleetYaml(running).replace(
    /tokens: \{[^}]*\}/,
    'tokens: { source: engine, timeout: 4s }',
  );
  const on = await router(yaml);
  expect(await doctor('--admin', on.adminUrl)).toMatchObject({ code: 0 });
});

test('a url alone is not blamed for KV events that nobody has said the place of', async () => {
  const { url } = await vllm(VLLM_ARGS);
  const { code, err, out } = await doctor('--worker', url);
  expect({ code, out }).toEqual({ code: 0, out: 'Healthy: the worker does what the router believes.\n' });
  expect(err).toContain('rank 0: its KV events are not tested, as it does not say where it publishes them');
});

test('engines in the process of the router have no wire to be asked over', async () => {
  folder = mkdtempSync(join(tmpdir(), 'pointsman-doctor-'));
  const file = join(folder, 'router.yaml');
  const inside = '  - { id: 9, model: tiny, dialect: llamacpp-node, gguf: ./no.gguf }\n';
  writeFileSync(file, `models: { tiny: { block_size: 16 } }\nworkers:\n${inside}`);
  expect(await doctor('--config', file)).toMatchObject({
    code: 2,
    err: 'error: there are no workers to ask: all run in the process of the router, which hashes their tokens and hears their events itself [PM_USAGE]\n',
  });
  running.push(await faultyEngine([]));
  writeFileSync(file, `${faultyFleetYaml(running)}${inside}`);
  const { code, err, out } = await doctor('--config', file);
  expect({ code, out }).toEqual({ code: 0, out: 'Healthy: the worker does what the router believes.\n' });
  expect(err).toContain(
    'llamacpp-node:./no.gguf#worker-9 is not asked: it runs in the process of the router\n',
  );
});

test('an engine that is not there is told, with what to change', async () => {
  running.push(await faultyEngine([]));
  folder = mkdtempSync(join(tmpdir(), 'pointsman-doctor-'));
  const file = join(folder, 'router.yaml');
  writeFileSync(file, faultyFleetYaml(running));
  running[0]?.close();
  const { code, out } = await doctor('--config', file);
  expect(code).toBe(1);
  expect(out).toContain('unreachable');
  expect(out).toContain('change: start the engine, or correct workers[].url');
});

test('with --verbose every check of a worker is listed, those that could not be made with the reason', async () => {
  running.push(await faultyEngine(['hybrid groups']));
  folder = mkdtempSync(join(tmpdir(), 'pointsman-doctor-'));
  const file = join(folder, 'router.yaml');
  writeFileSync(file, faultyFleetYaml(running));
  const { code, out } = await doctor('--config', file, '--verbose');
  expect(code).toBe(1);
  const [head, ...lines] = out.slice(0, out.indexOf('\n\n')).split('\n');
  expect(head).toBe(`worker 1 at ${running[0]?.url}`);
  expect(lines).toContain('  ok          block_size');
  expect(lines).toContain('  not tested  hash_seed: no other worker of model tiny is there to compare with');
  expect(lines).toContain('  found       hybrid_groups');
  const json: unknown = JSON.parse((await doctor('--config', file, '--json')).out);
  expect(json).toMatchObject({
    healthy: false,
    checks: expect.arrayContaining(['block_size', 'topic', 'ranks']),
    workers: [
      {
        id: 1,
        url: running[0]?.url,
        model: 'tiny',
        passed: expect.arrayContaining(['block_size', 'template', 'lora_mismatch']),
        untested: [{ code: 'hash_seed', reason: 'no other worker of model tiny is there to compare with' }],
      },
    ],
    findings: [{ code: 'hybrid_groups', effect: 'degraded', worker: 1, rank: 0 }],
  });
});

test('a router that cannot be asked is told in a sentence, exit code 1', async () => {
  running.push(await faultyEngine([]));
  const [engine] = running;
  folder = mkdtempSync(join(tmpdir(), 'pointsman-doctor-'));
  const secret = join(folder, 'token');
  writeFileSync(secret, 'right');
  const yaml = faultyFleetYaml(running).replace(
    'admin: { host: 127.0.0.1, port: 0 }',
    `admin: { host: 127.0.0.1, port: 0, token: { file: "${secret}" } }`,
  );
  const on = await router(yaml);
  expect(await doctor('--admin', on.adminUrl)).toMatchObject({
    code: 1,
    out: '',
    err: `error: the admin API at ${on.adminUrl} refused with status 401; put its token into POINTSMAN_ADMIN_TOKEN [PM_ADMIN_ANSWER]\n`,
  });
  expect(await doctor('--admin', engine?.url ?? '')).toMatchObject({
    code: 1,
    out: '',
    err: `error: ${engine?.url} has no /config and /workers, so it is not the admin API; --admin takes the address that serve prints as Admin [PM_ADMIN_ANSWER]\n`,
  });
  expect((await doctor('--admin', 'http://127.0.0.1:1')).err).toMatch(
    /^error: no answer from the admin API at http:\/\/127\.0\.0\.1:1 \([^)]+\); is the router running there\? --admin names another address \[PM_ADMIN_ANSWER\]\n$/,
  );
});

test('a configuration with errors is told as by every command, exit code 2', async () => {
  folder = mkdtempSync(join(tmpdir(), 'pointsman-doctor-'));
  const file = join(folder, 'router.yaml');
  writeFileSync(file, 'models: { tiny: { block_sise: 16 } }\n');
  const { code, err, out } = await doctor('--config', file);
  expect({ code, out }).toEqual({ code: 2, out: '' });
  expect(err).toContain('block_sise');
  expect((await doctor('--config', join(folder, 'none.yaml'))).code).toBe(2);
});

test('usage errors are exit code 2 in one sentence', async () => {
  expect(await doctor()).toMatchObject({
    code: 2,
    err: 'error: doctor takes --config FILE, --admin ADDRESS or --worker URL [PM_USAGE]\n',
  });
  expect(await doctor('--config', 'a.yaml', '--worker', 'http://a')).toMatchObject({ code: 2 });
  expect(await doctor('--worker', 'nonsense')).toMatchObject({
    code: 2,
    err: 'error: --worker takes urls such as http://127.0.0.1:8000, not "nonsense" [PM_USAGE]\n',
  });
});
