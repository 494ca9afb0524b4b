// Policies and hints as the command line, the environment and policy files choose them, in the built program.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { until } from './live-support.ts';

const MAIN = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'pointsman-policies-'));
afterAll(() => rmSync(folder, { recursive: true }));

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

/** A hint policy that runs under everything and says so. */
file(
  'loud.ts',
  `import { defineHintPolicy } from 'pointsman/plugin';
export default defineHintPolicy({
  type: 'loud',
  defaultHosts: ['any-worker-selection'],
  create: () => ({
    buildHints({ role }) {
      console.error('loud ran for ' + role);
      return [];
    },
  }),
});
`,
);

function start(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const child = spawn(
    process.execPath,
    [MAIN, 'serve', '--port', '0', '--admin-port', '0', '--json', ...args],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, POINTSMAN_CONFIG: '', ...env },
    },
  );
  const ended = once(child, 'close');
  closers.push(() => {
    child.kill('SIGTERM');
    return ended;
  });
  let log = '';
  child.stderr.on('data', (part: Buffer) => {
    log += part.toString();
  });
  return { child, ended, log: () => log };
}

/** Starts with two simulated workers and waits for the addresses. */
async function serve(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const { child, ended, log } = start(['--sim-workers', '2', ...args], env);
  const first = await Promise.race([once(createInterface({ input: child.stdout }), 'line'), ended]);
  if (typeof first[0] !== 'string') throw new Error(`serve ended: ${log()}`);
  const { url, admin } = JSON.parse(first[0]) as { url: string; admin: string };
  const complete = async (headers: Readonly<Record<string, string>> = {}) => {
    const answer = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ model: 'tiny', prompt: 'Hello town', max_tokens: 1 }),
    });
    return {
      status: answer.status,
      worker: answer.headers.get('x-pointsman-worker'),
      text: await answer.text(),
    };
  };
  const metric = async (name: string): Promise<number> => {
    const text = await (await fetch(`${admin}/metrics`)).text();
    const values = text.split('\n').filter((line) => line.startsWith(name) && !line.startsWith('#'));
    return values.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
  };
  const config = async () =>
    (await (await fetch(`${admin}/config`)).json()) as {
      workerSelection: Record<
        string,
        { policy: unknown; parameters: unknown; hints: { type: string; parameters: unknown }[] | null }
      >;
    };
  return { url, admin, complete, metric, config, log };
}

/** What a start that is refused says, and its exit code. */
async function refused(args: readonly string[]): Promise<{ code: unknown; err: string }> {
  const { ended, log } = start(args);
  const [code] = await ended;
  return { code, err: log() };
}

describe('hints off the KV path', () => {
  it('listed beside --router-mode round-robin end the start with 2 and the whole text', async () => {
    const listed = file(
      'listed.yaml',
      'worker_selection:\n  decode: { hints: [{ type: kv_fetch }] }\n  aggregated:\n    hints: [{ type: kv_fetch }]\n',
    );
    const text = `hints for aggregated, decode run only on the KV path, but router mode round-robin routes without it; use router mode kv, or remove those roles' hints`;
    for (const option of ['--config', '--router-policy-config']) {
      const { code, err } = await refused([option, listed, '--router-mode', 'round-robin']);
      expect([option, code]).toEqual([option, 2]);
      expect(err).toContain(`${listed}:4:5: worker_selection.aggregated.hints: ${text}`);
    }
  });

  it('without a file the same mode serves, and nothing is listed that could run', async () => {
    const { complete, log, metric } = await serve(['--router-mode', 'round-robin']);
    const workers = [await complete(), await complete(), await complete()].map(({ worker }) => worker);
    expect(new Set(workers).size).toBe(2);
    expect(workers[2]).toBe(workers[0]);
    expect(await metric('pointsman_hint_actions_total')).toBe(0);
    expect(log()).not.toContain('"level":"error"');
  });

  it('by default do not run in that mode, and do run in mode kv', async () => {
    const path = file('loud.yaml', 'plugins: [./loud.ts]\n');
    const off = await serve(['--config', path, '--router-mode', 'round-robin']);
    expect((await off.complete()).status).toBe(200);
    expect(off.log()).toContain('default hints do not run');
    const on = await serve(['--config', path]);
    expect((await on.complete()).status).toBe(200);
    await until('the policy ran in mode kv', () => on.log().includes('loud ran for aggregated'));
    expect(off.log()).not.toContain('loud ran');
  });

  it('mode kv without a file serves', async () => {
    const { complete, config } = await serve([]);
    expect(await complete()).toMatchObject({ status: 200, worker: expect.stringMatching(/^[12]:0$/) });
    expect((await config()).workerSelection).toEqual({});
  });
});

describe('role policies from outside', () => {
  const roles = `plugins: [./loud.ts]
worker_selection:
  aggregated: { type: dynamo-default-cost-fn, parameters: { overlap_score_credit: 2.0 }, hints: [{ type: loud }] }
  prefill: { type: dynamo-default-cost-fn, parameters: { overlap_score_credit: 2.0 }, hints: [{ type: loud, name: p }] }
  decode: { type: dynamo-default-cost-fn, parameters: { overlap_score_credit: 2.0 }, hints: [{ type: loud, name: d }] }
`;
  const summary = (
    selection: Awaited<ReturnType<Awaited<ReturnType<typeof serve>>['config']>>['workerSelection'],
  ) =>
    Object.fromEntries(
      Object.entries(selection).map(([role, { hints, parameters, policy }]) => {
        return [role, { policy, parameters, hints: hints?.map(({ type }) => type) }];
      }),
    );
  const named = (name: string) => ({ policy: { kind: 'name', name }, parameters: {}, hints: ['loud'] });

  it('replace the type, drop its parameters and keep the hints: flags before variables before the one for all', async () => {
    const path = file('roles.yaml', roles);
    const { config, complete, log } = await serve(['--config', path, '--router-prefill-policy', 'random'], {
      DYN_ROUTER_PREFILL_POLICY: 'least-loaded',
      DYN_ROUTER_DECODE_POLICY: 'power-of-two',
      DYN_ROUTER_WORKER_SELECTION_POLICY: 'round-robin',
    });
    expect(summary((await config()).workerSelection)).toEqual({
      aggregated: named('round-robin'),
      prefill: named('random'),
      decode: named('power-of-two'),
      encode: { policy: { kind: 'name', name: 'round-robin' }, parameters: {}, hints: undefined },
    });
    // The hints that were kept run under the policy that was put in.
    const workers = [await complete(), await complete()].map(({ worker }) => worker);
    expect(new Set(workers).size).toBe(2);
    await until('the kept hint policy ran', () => log().includes('loud ran for aggregated'));
  });

  it('leave the other roles as the file has them', async () => {
    const path = file('decode.yaml', roles);
    const { config } = await serve(['--config', path, '--router-decode-policy', 'default']);
    const { aggregated, decode, prefill } = summary((await config()).workerSelection);
    expect(decode).toEqual(named('default'));
    const kept = {
      policy: { kind: 'type', type: 'dynamo-default-cost-fn' },
      parameters: { overlap_score_credit: 2 },
      hints: ['loud'],
    };
    expect([aggregated, prefill]).toEqual([kept, kept]);
  });

  it('that do not exist end the start with 2', async () => {
    const { code, err } = await refused(['--router-decode-policy', 'rendom']);
    expect(code).toBe(2);
    expect(err).toContain('unknown worker-selection policy "rendom"');
    expect(err).toContain('did you mean "random"?');
  });
});

describe('plain router modes', () => {
  it('power-of-two spreads over the workers, and its counts return to zero', async () => {
    const { complete, metric } = await serve(['--router-mode', 'power-of-two']);
    const answers = await Promise.all(Array.from({ length: 24 }, () => complete()));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    expect(new Set(answers.map(({ worker }) => worker))).toEqual(new Set(['1:0', '2:0']));
    expect(await metric('pointsman_bookings_active')).toBe(0);
  });

  it('direct goes where the request says, and refuses one that says nothing', async () => {
    const path = file('direct.yaml', 'router: { mode: direct, trust_routing_fields_from: [127.0.0.0/8] }\n');
    const { complete, metric } = await serve(['--config', path]);
    for (const id of ['2', '1', '2']) {
      const answer = await complete({ 'x-dynamo-worker-instance-id': id });
      expect(answer).toMatchObject({ status: 200, worker: `${id}:0` });
    }
    const without = await complete();
    expect(without.status).toBe(400);
    expect(without.text).toContain('takes pinned requests only, and this one names no worker');
    expect((await complete({ 'x-dynamo-worker-instance-id': '7' })).status).toBe(503);
    expect(await metric('pointsman_selection_fallbacks_total')).toBe(0);
    expect(await metric('pointsman_bookings_active')).toBe(0);
  });
});

it('a policy file beside a configuration decides, and its warnings carry its name', async () => {
  const main = file(
    'beside.yaml',
    'router: { trust_routing_fields_from: [127.0.0.0/8] }\nrouter_policy_config: policy.yaml\n',
  );
  file('policy.yaml', 'router: { router_event_threads: 4 }\nworker_selection: { aggregated: direct }\n');
  const { complete, log } = await serve(['--config', main]);
  expect((await complete()).status).toBe(400);
  expect(log()).toContain(
    `${join(folder, 'policy.yaml')}:1:11: router.router_event_threads: Pointsman has no use for this key`,
  );
  const twice = file('twice.yaml', '\nworker_selection: { aggregated: random }\n');
  const both = await refused(['--config', twice, '--router-policy-config', join(folder, 'policy.yaml')]);
  expect(both.code).toBe(2);
  expect(both.err).toContain(
    `${join(folder, 'policy.yaml')}:2:1: worker_selection: is also given at ${twice}:2:1; keep one of the two`,
  );
});
