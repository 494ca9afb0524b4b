// `pointsman serve` as users start it: built, in a process of its own.
import { type ChildProcess, execSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { client, engines, routerYaml, until } from './live-support.ts';

const MAIN = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'pointsman-serve-'));
afterAll(() => rmSync(folder, { recursive: true }));

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

interface Serving {
  readonly child: ChildProcess;
  readonly ended: Promise<{ code: number | null }>;
  readonly log: () => string;
}

function serve(args: readonly string[], env: Record<string, string> = {}): Serving {
  const child = spawn(process.execPath, [MAIN, 'serve', ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, POINTSMAN_CONFIG: '', ...env },
  });
  children.push(child);
  let log = '';
  child.stderr?.on('data', (part) => {
    log += part;
  });
  const ended = once(child, 'close').then(([code]) => ({ code: code as number | null }));
  return { child, ended, log: () => log };
}

interface Addresses {
  readonly url: string;
  readonly admin: string;
  readonly sim_pid: number | null;
  readonly workers: readonly { readonly id: number; readonly url: string }[];
}

async function addresses({ child, log }: Serving): Promise<Addresses> {
  const lines = createInterface({ input: child.stdout! });
  const first = await Promise.race([once(lines, 'line'), once(child, 'close').then(() => [log()])]);
  child.stdout?.resume();
  return JSON.parse(String(first[0])) as Addresses;
}

const ANY_PORT = ['--port', '0', '--admin-port', '0', '--json'];
const LONG = { model: 'tiny', max_tokens: 100_000, stream: true as const, prompt: 'Hello' };

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe('pointsman serve', () => {
  it('without a configuration serves from simulated workers and is ready when it says so', async () => {
    const serving = serve([...ANY_PORT, '--sim-workers', '3']);
    const { url, admin, workers } = await addresses(serving);
    expect(workers.map(({ id }) => id)).toEqual([1, 2, 3]);
    const ready = await fetch(`${url}/ready`);
    expect(await ready.json()).toEqual({ status: 'ready', reasons: [], warnings: [] });
    const answer = await client(url).chat.completions.create({
      model: 'tiny',
      max_tokens: 3,
      messages: [{ role: 'user', content: 'Hello' }],
    });
    expect(answer.usage?.completion_tokens).toBe(3);
    const metrics = await (await fetch(`${admin}/metrics`)).text();
    expect(metrics).toMatch(/^pointsman_requests_total\{door="gateway",model="tiny",status="200"\} 1$/m);
    const decisions = await (await fetch(`${admin}/decisions`)).text();
    expect(decisions).toContain('"outcome":{"status":200');
    expect((await fetch(`${admin}/workers`)).status).toBe(200);
  });

  it('tells people the addresses, a curl line that streams, and how to stop', async () => {
    const { child } = serve(['--port', '0', '--admin-port', '0', '--sim-workers', '1']);
    let text = '';
    child.stdout?.on('data', (part) => {
      text += part;
    });
    await until('it says how to stop', () => text.includes('Stop with Ctrl-C.'));
    const line = /^ {2}(curl .*)$/m.exec(text)?.[1] ?? '';
    const [, url, body] = /^curl -N (\S+) -H 'content-type: application\/json' -d '(.*)'$/.exec(line) ?? [];
    const answer = await fetch(url ?? '', { method: 'POST', body: body ?? '' });
    expect(answer.headers.get('content-type')).toMatch(/^text\/event-stream/);
    expect((await answer.text()).endsWith('data: [DONE]\n\n')).toBe(true);
    // A prompt without full blocks would leave nothing in the cache for a second request to find.
    const admin = /^Admin +(\S+)$/m.exec(text)?.[1] ?? '';
    const [decision] = (await (await fetch(`${admin}/decisions`)).json()) as { prompt: { blocks: number } }[];
    expect(decision?.prompt.blocks).toBeGreaterThan(2);
    // What it says to type next works as it stands, in the same folder.
    const explain = /^ {2}(.* explain --last .*)$/m.exec(text)?.[1] ?? '';
    expect(execSync(explain, { encoding: 'utf8' })).toContain('door gateway  model tiny');
    expect(text).toMatch(/^API {6}http:\/\/127\.0\.0\.1:\d+\/v1$/m);
    expect(text).toMatch(/^Admin {4}http:\/\/127\.0\.0\.1:\d+$/m);
  });

  it('tells what is missing instead of a curl line when there is nothing to route to', async () => {
    const file = join(folder, 'policies.yaml');
    writeFileSync(file, 'listen: { port: 0 }\nadmin: { port: 0 }\nrouter: { mode: random }\n');
    const { child } = serve(['--config', file]);
    let text = '';
    child.stdout?.on('data', (part) => {
      text += part;
    });
    await until('it says how to stop', () => text.includes('Stop with Ctrl-C.'));
    expect(text).toContain('Not ready yet: no model is configured');
    expect(text).toContain('give --sim-workers 4');
    expect(text).not.toContain('curl');
  });

  it('lets running requests finish on SIGTERM, refuses new ones, and exits 0', async () => {
    const serving = serve([...ANY_PORT, '--sim-workers', '1']);
    const { url, admin, sim_pid } = await addresses(serving);
    const stream = await client(url).completions.create({ ...LONG, max_tokens: 40 });
    // Runs until this client leaves: however slow the checks are, the router still drains meanwhile.
    const endless = await client(url).completions.create(LONG);
    serving.child.kill('SIGTERM');
    await until('it says that it stops', () =>
      serving.log().includes('stopping: running requests may finish'),
    );
    for (const port of [url, admin]) {
      const ready = await fetch(`${port}/ready`);
      expect(ready.status).toBe(503);
      expect(await ready.json()).toEqual({
        status: 'not_ready',
        reasons: ['the router is stopping'],
        warnings: [],
      });
    }
    await expect(client(url).completions.create({ model: 'tiny', prompt: 'x' })).rejects.toMatchObject({
      status: 503,
      code: 'PM_SHUTTING_DOWN',
    });
    let tokens = 0;
    for await (const _ of stream) tokens += 1;
    expect(tokens).toBe(40);
    endless.controller.abort();
    expect(await serving.ended).toEqual({ code: 0 });
    expect(isAlive(sim_pid ?? 0)).toBe(false);
    // Whatever a router and its simulated workers write to stderr is JSON, a line per entry, its level in words.
    const lines = serving
      .log()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { level: unknown; msg: string });
    expect(new Set(lines.map(({ level }) => level))).toEqual(new Set(['info', 'warn']));
    expect(lines.filter(({ msg }) => msg.startsWith('stopping'))).toHaveLength(1);
  });

  it('ends what is still running after limits.drain with an error the SDK understands', async () => {
    const { engines: list } = await engines(1);
    const file = join(folder, 'drain.yaml');
    writeFileSync(file, routerYaml([list[0]?.url ?? ''], 'limits: { drain: 50ms }'));
    const serving = serve(['--config', file, '--json']);
    const { url } = await addresses(serving);
    const stream = await client(url).completions.create(LONG);
    const reading = (async () => {
      for await (const _ of stream) {
        // Reads until it is ended.
      }
    })();
    serving.child.kill('SIGINT');
    await expect(reading).rejects.toMatchObject({ code: 'shutting_down' });
    expect(await serving.ended).toEqual({ code: 0 });
  });

  it('exits 1 at once on a second signal', async () => {
    const serving = serve([...ANY_PORT, '--sim-workers', '1']);
    const { url } = await addresses(serving);
    const stream = await client(url).completions.create(LONG);
    const reading = (async () => {
      for await (const _ of stream) {
        // Reads until it breaks.
      }
    })().catch(() => 'broken');
    serving.child.kill('SIGTERM');
    await until('it says that it stops', () =>
      serving.log().includes('stopping: running requests may finish'),
    );
    serving.child.kill('SIGTERM');
    expect(await serving.ended).toEqual({ code: 1 });
    expect(await reading).toBe('broken');
  });

  it('takes its simulated workers with it when it is killed', async () => {
    const serving = serve([...ANY_PORT, '--sim-workers', '2']);
    const { sim_pid } = await addresses(serving);
    expect(isAlive(sim_pid ?? 0)).toBe(true);
    serving.child.kill('SIGKILL');
    await until('the simulated workers are gone', () => !isAlive(sim_pid ?? 0));
  });

  it('exits 2 on a port in use, naming it, and leaves nothing behind', async () => {
    const holder = createServer();
    holder.listen(0, '127.0.0.1');
    await once(holder, 'listening');
    const address = holder.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    for (const [option, what] of [
      ['--port', 'cannot listen on'],
      ['--admin-port', 'the admin API cannot listen on'],
    ] as const) {
      const serving = serve([...ANY_PORT, '--sim-workers', '1', option, String(port)]);
      expect(await serving.ended).toEqual({ code: 2 });
      expect(serving.log()).toContain(
        `error: ${what} 127.0.0.1:${port}: another process uses that port; --port and --admin-port choose others [PM_USAGE]`,
      );
    }
    holder.close();
  });

  it('exits 2 on an address it cannot have, and does not blame the port', async () => {
    const file = join(folder, 'address.yaml');
    writeFileSync(file, 'listen: { host: 192.0.2.1 }\n');
    const serving = serve(['--config', file, ...ANY_PORT]);
    expect(await serving.ended).toEqual({ code: 2 });
    expect(serving.log()).toMatch(
      /^error: cannot listen on 192\.0\.2\.1:0: .*; listen\.host and admin\.host choose the address \[PM_USAGE\]$/m,
    );
  });

  it('refuses what it cannot serve with every problem and its position, exit 2', async () => {
    const file = join(folder, 'bad.yaml');
    writeFileSync(
      file,
      [
        'models:',
        '  a: { tokens: { source: engine } }',
        '  b: { tokens: { source: local, tokenizer: ./none.json } }',
        'workers:',
        '  - { id: 1, model: a, url: "http://127.0.0.1:9", dialect: auto, capabilities: none }',
      ].join('\n'),
    );
    const serving = serve(['--config', file, '--port', '0', '--admin-port', '0']);
    expect(await serving.ended).toEqual({ code: 2 });
    const log = serving.log();
    expect(log).toContain(
      `${file}:5:60: workers[0].dialect: dialect "auto" asks the engine what it is, and capabilities: none says not to ask`,
    );
    expect(log).toContain(`${file}:3:16: models.b.tokens: ${join(folder, 'none.json')} cannot be read`);
  });

  it('exits 2 when options do not fit together', async () => {
    const file = join(folder, 'some.yaml');
    writeFileSync(file, routerYaml(['http://127.0.0.1:9']));
    const both = serve(['--config', file, '--sim-workers', '2']);
    expect(await both.ended).toEqual({ code: 2 });
    expect(both.log()).toContain(
      '--sim-workers brings its own model and workers, but the configuration has some',
    );
    const mode = serve([...ANY_PORT, '--router-mode', 'kw']);
    expect(await mode.ended).toEqual({ code: 2 });
    expect(mode.log()).toContain('unknown router mode "kw"');
  });

  it('takes policy sections from a file of their own beside simulated workers', async () => {
    const file = join(folder, 'policy.yaml');
    writeFileSync(file, 'worker_selection: { aggregated: round-robin }\n');
    const serving = serve([...ANY_PORT, '--sim-workers', '2', '--router-policy-config', file]);
    const { url } = await addresses(serving);
    const seen: (string | null)[] = [];
    for (let at = 0; at < 4; at += 1) {
      const answer = await fetch(`${url}/v1/completions`, {
        method: 'POST',
        body: JSON.stringify({ model: 'tiny', prompt: 'Hello', max_tokens: 1 }),
      });
      await answer.text();
      seen.push(answer.headers.get('x-pointsman-worker'));
    }
    expect(seen.slice(0, 2).sort()).toEqual(['1:0', '2:0']);
    expect(seen.slice(2)).toEqual(seen.slice(0, 2));
  });
});
