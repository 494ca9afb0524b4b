// The way of the guides for plugin authors: examples with tests that pass, and a new hint policy whose action is seen in explain.
import { type ChildProcess, spawn } from 'node:child_process';
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

  it('has tests that pass and types that hold', async () => {
    const copy = join(folder, name);
    cpSync(place, copy, { recursive: true });
    rmSync(join(copy, 'tsconfig.json'), { force: true });
    await run('plugins', 'types', copy);
    expect((await run('plugins', 'test', copy, '--types')).code).toBe(0);
  });
});

it('there are examples', () => {
  expect(examples).toEqual(
    expect.arrayContaining(['cost-aware', 'hint-plugin', 'selection-plugin', 'sessions']),
  );
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
  const sendTwice = async (words: string): Promise<string> => {
    const body = JSON.stringify({ model: 'tiny', max_tokens: 4, prompt: words.repeat(60) });
    for (const _ of [1, 2]) {
      const headers = { 'content-type': 'application/json' };
      const answer = await fetch(`${api}/completions`, { method: 'POST', headers, body });
      expect(answer.status).toBe(200);
      await answer.text();
    }
    return (await run('explain', '--last', '--admin', admin)).out;
  };
  const fetched = /^a1 +kv\.fetch@1\.0 +mine +\d+ +accepted +[1-9]\d*$/m;
  const shown: string[] = [];
  // A source has 50 ms to answer a fetch; on a machine that is too busy for that, another prompt gets its chance.
  for (const words of ['quick fox ', 'slow river ', 'full lamp ', 'next order ', 'what if ']) {
    shown.push(await sendTwice(words));
    expect(shown.at(-1)).toMatch(/^mine +sent +1 /m);
    if (fetched.test(shown.at(-1) ?? '')) break;
  }
  expect(shown.at(-1)).toMatch(fetched);
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
