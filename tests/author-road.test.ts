// The way of the guides for plugin authors: examples with tests that pass, and a new hint policy whose action is seen in explain.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { runCli } from '../src/cli/run.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const MAIN = join(root, 'dist/cli/main.js');
const folder = mkdtempSync(join(tmpdir(), 'pointsman-road-'));
const children: ChildProcess[] = [];
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(folder, { recursive: true });
});
const examples = readdirSync(join(root, 'examples')).filter((name) =>
  existsSync(join(root, 'examples', name, 'router.yaml')),
);

async function run(...args: string[]): Promise<{ code: number; out: string }> {
  let out = '';
  const code = await runCli(args, {
    out: (text) => {
      out += text;
    },
    err: () => {},
    env: process.env,
    fancy: false,
    exit: () => {},
  });
  return { code, out };
}

describe.each(examples)('examples/%s', { timeout: 300_000 }, (name) => {
  const place = join(root, 'examples', name);

  it('passes check without a warning', async () => {
    const { code, out } = await run('check', join(place, 'router.yaml'));
    expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining('no errors, 0 warnings') });
  });

  it('has tests that pass', async () => {
    const { code, out } = await run('plugins', 'test', place, '--json');
    expect({ code, out: JSON.parse(out) }).toMatchObject({ code: 0, out: { ok: true } });
  });

  it('has types that hold', async () => {
    const copy = join(folder, name);
    cpSync(place, copy, { recursive: true });
    rmSync(join(copy, 'tsconfig.json'), { force: true });
    await run('plugins', 'types', copy);
    const compiler = join(root, 'node_modules/typescript/bin/tsc');
    expect(execFileSync(process.execPath, [compiler, '-p', copy], { encoding: 'utf8' })).toBe('');
  });
});

it('there are examples', () => {
  expect(examples).toEqual(expect.arrayContaining(['cost-aware', 'hint-plugin', 'selection-plugin']));
});

it('a new hint policy runs in front of simulated workers, and explain shows what it did', async () => {
  const place = join(folder, 'mine');
  expect((await run('plugins', 'new', 'hint-policy', 'mine', '--folder', place)).code).toBe(0);
  const ports = ['--port', '0', '--admin-port', '0'];
  const child = spawn(
    process.execPath,
    [MAIN, 'serve', '--config', join(place, 'router.yaml'), '--sim-workers', '2', ...ports],
    { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, POINTSMAN_CONFIG: '' } },
  );
  children.push(child);
  const { api, admin } = await addresses(child);
  const body = JSON.stringify({ model: 'tiny', max_tokens: 4, prompt: 'quick fox '.repeat(60) });
  for (const _ of [1, 2]) {
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${api}/completions`, { method: 'POST', headers, body });
    expect(answer.status).toBe(200);
    await answer.text();
  }
  const { out } = await run('explain', '--last', '--admin', admin);
  expect(out).toMatch(/^mine +sent +1 /m);
  expect(out).toMatch(/^a1 +kv\.fetch@1\.0 +mine +\d+ +accepted +[1-9]\d*$/m);
  child.kill('SIGTERM');
  await once(child, 'close');
}, 120_000);

/** What serve prints when it is ready. */
async function addresses(child: ChildProcess): Promise<{ api: string; admin: string }> {
  const found: Record<string, string> = {};
  if (child.stdout === null || child.stderr === null) throw new Error('the router’s output cannot be read');
  child.stderr.resume();
  for await (const line of createInterface({ input: child.stdout })) {
    const [, name, url] = /^(API|Admin) +(http\S+)/.exec(line) ?? [];
    if (name !== undefined && url !== undefined) found[name] = url;
    if (line.startsWith('Stop with')) break;
  }
  child.stdout.resume();
  return { api: found.API ?? '', admin: found.Admin ?? '' };
}
