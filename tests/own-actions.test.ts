// A policy with an action of its own, as docs/plugins.md runs it: the engine is told to accept the action, and what came of it is seen
// without what it said.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runCli } from '../src/cli/run.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const CONFIG = `${root}examples/hint-plugin/pin-children.yaml`;
const ACCEPT = '--sim-arg=--accept-action=acme.pin@1.0';

const children: ChildProcess[] = [];
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
});

interface Serving {
  readonly url: string;
  readonly admin: string;
  log(): string;
}

async function serve(...args: readonly string[]): Promise<Serving> {
  const ports = ['--port', '0', '--admin-port', '0', '--json'];
  const child = spawn(
    process.execPath,
    [`${root}dist/cli/main.js`, 'serve', '--config', CONFIG, '--sim-workers', '1', ...ports, ...args],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  children.push(child);
  let log = '';
  child.stderr.on('data', (part: Buffer) => {
    log += part.toString();
  });
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  const { url, admin } = JSON.parse(line) as { url: string; admin: string };
  return { url, admin, log: () => log };
}

/** Sends a chat and answers what `explain` prints of it, as text or as JSON. */
async function explained(
  { admin, url }: Serving,
  headers: Readonly<Record<string, string>>,
  ...options: readonly string[]
): Promise<string> {
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'tiny', max_tokens: 2, messages: [{ role: 'tool', content: 'Done' }] }),
  });
  expect(answer.status).toBe(200);
  await answer.text();
  return printed('explain', answer.headers.get('x-request-id') ?? '', '--admin', admin, ...options);
}

async function printed(...args: readonly string[]): Promise<string> {
  let text = '';
  const io = {
    out: (part: string) => {
      text += part;
    },
    err: () => undefined,
    env: {},
    fancy: false,
    exit: () => undefined,
  };
  expect(await runCli([...args], io)).toBe(0);
  return text;
}

const CHILD = { 'x-dynamo-session-id': 'child-of-main', 'x-dynamo-parent-session-id': 'main-session' };

let accepting: Serving;
let silent: Serving;
let strict: Serving;
beforeAll(async () => {
  [accepting, silent, strict] = await Promise.all([
    serve(ACCEPT),
    serve('--sim-arg=--no-action-set'),
    serve(),
  ]);
});

it('is accepted by an engine that was told to, and explain shows it with the session', async () => {
  const text = await explained(accepting, { ...CHILD, 'x-dynamo-session-final': 'true' });
  expect(text).toMatch(/^session [0-9a-f]{8}, parent [0-9a-f]{8}, trigger tool_result, final request$/m);
  expect(text).toMatch(/^pin-children +sent +1 /m);
  expect(text).toMatch(/^a1 +acme\.pin@1\.0 +pin-children +25 +accepted \(no_effect\)$/m);
});

it('is not sent for a request without a parent session', async () => {
  const text = await explained(accepting, { 'x-dynamo-parent-session-id': 'main-session' });
  expect(text).toMatch(/^session none$/m);
  expect(text).toMatch(/^pin-children +nothing/m);
});

it('leaves its size in the record, and neither its payload nor a session id', async () => {
  const [record] = JSON.parse(await explained(accepting, CHILD, '--json')) as [{ hints: { sent: unknown } }];
  expect(record.hints.sent).toEqual([
    {
      action_id: 'a1',
      type: 'acme.pin@1.0',
      policy: 'pin-children',
      bytes: '{"parent":"main-session"}'.length,
      outcome: 'accepted',
      reason: 'no_effect',
      blocks_done: null,
    },
  ]);
  expect(JSON.stringify(record)).not.toMatch(/main-session|child-of-main/);
});

it('is rejected with a reason by an engine that does not say what it takes', async () => {
  const text = await explained(silent, CHILD);
  expect(text).toMatch(/^a1 +acme\.pin@1\.0 +pin-children +25 +rejected \(unsupported\)$/m);
});

it('is dropped for an engine that says so, and the log says which action and what would be taken', async () => {
  expect(await explained(strict, CHILD)).toMatch(/^pin-children +dropped .*unsupported_action$/m);
  expect(strict.log()).toContain('action acme.pin@1.0; the rank accepts kv.fetch@1.0, kv.retain@1.0');
  expect(strict.log()).not.toMatch(/main-session|child-of-main/);
});

it('is replayed for the sessions of a trace file, onto engines that were told to accept it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'pointsman-own-actions-'));
  try {
    const file = join(folder, 'trace.jsonl');
    const row = { timestamp: 0, input_length: 600, output_length: 2, hash_ids: [1, 2], note: 'ignored' };
    const child = { session_id: 'child-of-main', parent_session_id: 'main-session' };
    const rows = [row, { ...row, session_context: child }, { ...row, session_id: 'main-session' }];
    writeFileSync(file, rows.map((one) => `${JSON.stringify(one)}\n`).join(''));
    const run = async (...options: readonly string[]) => {
      const report = JSON.parse(await printed('replay', file, '--compare', CONFIG, '--json', ...options));
      const [{ hints, policy_faults: faults }] = report.runs;
      return { outcomes: hints.outcomes, faults };
    };
    const accepted = await run('--accept-action', 'acme.pin@1.0');
    expect(accepted).toEqual({ outcomes: { accepted: 1 }, faults: [] });
    expect((await run()).faults).toMatchObject([
      { policy: 'pin-children', reason: 'unsupported_action', count: 1 },
    ]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
