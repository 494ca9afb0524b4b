import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import type { CliIo } from './output.ts';
import { runCli } from './run.ts';

let server: Server | null = null;
afterEach(async () => {
  await new Promise((resolve) => {
    if (server) server.close(resolve);
    else resolve(null);
  });
  server = null;
});

/** An admin API that answers from a table of url to body; others are 404. */
async function admin(
  answers: Readonly<Record<string, string>>,
  status = 200,
): Promise<{ url: string; seen: string[] }> {
  const seen: string[] = [];
  const started = createServer((request, response) => {
    seen.push(`${request.headers.authorization ?? ''} ${request.url}`);
    const body = answers[request.url ?? ''];
    response
      .writeHead(body === undefined ? 404 : status, { connection: 'close' })
      .end(body ?? '{"error":{}}');
  });
  server = started;
  await new Promise<void>((resolve) => started.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(started.address() as AddressInfo).port}`, seen };
}

async function explain(args: readonly string[], env: CliIo['env'] = {}) {
  let out = '';
  let err = '';
  const code = await runCli(['explain', ...args], {
    out: (text) => {
      out += text;
    },
    err: (text) => {
      err += text;
    },
    env,
    fancy: false,
    exit: () => {},
  });
  return { code, out, err };
}

const record = (id: string, worker: string): string =>
  `{"schema":1,"id":"${id}","request_id":"req-1","attempt":1,"at_ms":0,"door":"gateway","model":"m",
  "partition":{"model":"m","routing_group":"default"},"role":"aggregated","mode":"kv",
  "policy":{"type":"random","instance":null,"version":"builtin"},"session":null,
  "prompt":{"tokens":1,"blocks":1,"block_size":16,"tokens_source":"local","head_hash":${worker}},
  "queue":{"class":"default","waited_ms":0,"outcome":"direct"},
  "index":{"kind":"none","version":0,"per_worker_age_ms":{},"stale_workers":[]},"candidates_total":0,"candidates":[],
  "pick":{"worker_id":${worker},"dp_rank":0,"by":"policy","ties":1,"random_draw":null,"temperature":0},
  "booking":{"attempt_id":1,"prefill_tokens":1,"decode_blocks":1,"released":null,"held_ms":null},"hints":null,
  "prediction":null,"report":null,"outcome":null,
  "classification":null,
  "wall":{"tokenize_us":0,"hash_us":0,"lookup_us":0,"select_us":0,"hint_us":0}}`;

const BIG = '18446744073709551615';

test('all attempts of a request are printed, with ids exact', async () => {
  const { url, seen } = await admin({
    '/decisions?request=req-1': `[${record('d-1', BIG)},${record('d-2', '7')}]`,
  });
  const { code, out, err } = await explain(['req-1', '--admin', `${url}/`], { POINTSMAN_ADMIN_TOKEN: 'tok' });
  expect([code, err, seen]).toEqual([0, '', ['Bearer tok /decisions?request=req-1']]);
  expect(out).toContain(`picked worker ${BIG} rank 0`);
  expect(out.split('\n\n---\n\n').map((part) => part.split('  ')[0])).toEqual([
    'decision d-1',
    'decision d-2',
  ]);
});

test('a decision id is found too, and --json writes a list with every digit', async () => {
  const { url } = await admin({ '/decisions?request=d%2F1': '[]', '/decisions/d%2F1': record('d/1', BIG) });
  const { code, out } = await explain(['d/1', '--admin', url, '--json']);
  expect(code).toBe(0);
  expect(out).toMatch(/^\[\n {2}\{/);
  expect(out).toContain(`"worker_id": ${BIG}`);
});

test('a request nobody remembers exits 1', async () => {
  const { url } = await admin({ '/decisions?request=req-9': '[]' });
  expect(await explain(['req-9', '--admin', url])).toEqual({
    code: 1,
    out: '',
    err: `error: the router at ${url} remembers no decision for "req-9"; a request that was refused before a worker was booked has none, its answer says why, and old ones make room within limits.decision_bytes [PM_DECISION_UNKNOWN]\n`,
  });
});

test('the port of the API instead of the admin API is told apart from an unknown request', async () => {
  const { url } = await admin({});
  expect(await explain(['req-9', '--admin', url])).toEqual({
    code: 1,
    out: '',
    err: `error: ${url} has no /decisions, so it is not the admin API; --admin takes the address that serve prints as Admin [PM_ADMIN_ANSWER]\n`,
  });
});

test('an address where nobody listens is told with what to do', async () => {
  const { url } = await admin({});
  await new Promise((resolve) => server?.close(resolve));
  server = null;
  expect(await explain(['req-1', '--admin', url])).toEqual({
    code: 1,
    out: '',
    err: `error: no answer from the admin API at ${url} (ECONNREFUSED); is the router running there? --admin names another address [PM_ADMIN_ANSWER]\n`,
  });
});

test('an answer that is not of this API is refused, and a missing token is named', async () => {
  const html = await admin({ '/decisions?request=x': '<html>' });
  expect((await explain(['x', '--admin', html.url])).err).toBe(
    `error: ${html.url}/decisions?request=x answered status 200 without the JSON expected of the admin API [PM_ADMIN_ANSWER]\n`,
  );
  await new Promise((resolve) => server?.close(resolve));
  const locked = await admin({ '/decisions?request=x': '{}' }, 401);
  expect((await explain(['x', '--admin', locked.url])).err).toBe(
    `error: the admin API at ${locked.url} refused with status 401; put its token into POINTSMAN_ADMIN_TOKEN [PM_ADMIN_ANSWER]\n`,
  );
});

test('an admin address may be a host and a port', async () => {
  const { url } = await admin({ '/decisions?request=req-1': `[${record('d-1', '7')}]` });
  const { code, out } = await explain(['req-1', '--admin', new URL(url).host]);
  expect([code, out.split('  ')[0]]).toEqual([0, 'decision d-1']);
});

test.each([
  'localhost',
  'localhost:',
  'localhost:65536',
  'ftp://localhost:8001',
  ':8001',
  'a b:1',
  '::1:8001',
])('an admin address such as %s is a usage error', async (given) => {
  expect(await explain(['x', '--admin', given])).toEqual({
    code: 2,
    out: '',
    err: `error: --admin must be host:port or a url such as http://127.0.0.1:8001, not "${given}" [PM_USAGE]\n`,
  });
});

test('--last shows all attempts of the newest request', async () => {
  const { url } = await admin({
    '/decisions?limit=1': `[${record('d-2', '7')}]`,
    '/decisions?request=req-1': `[${record('d-1', '6')},${record('d-2', '7')}]`,
  });
  const { code, out } = await explain(['--last', '--admin', url]);
  expect(code).toBe(0);
  expect(out).toContain('decision d-1');
  expect(out).toContain('decision d-2');
});

test('--last says so when nothing was decided', async () => {
  const { url } = await admin({ '/decisions?limit=1': '[]' });
  const { code, err } = await explain(['--last', '--admin', url]);
  expect([code, err]).toEqual([
    1,
    `error: the router at ${url} has booked no worker yet; send it a request (one that is refused leaves no decision) [PM_DECISION_UNKNOWN]\n`,
  ]);
});

test.each([[[]], [['req-1', '--last']]])('a request id and --last exclude each other: %j', async (args) => {
  const { code, err } = await explain(args);
  expect([code, err]).toEqual([
    2,
    'error: explain takes a request id, --last or --session <id>, one of the three [PM_USAGE]\n',
  ]);
});

test('the last request of a session is found by the id that its client sends', async () => {
  const { url, seen } = await admin({
    '/decisions?limit=1&session_id=agent%207': `[${record('d-2', '7')}]`,
    '/decisions?limit=1&session_id=other': '[]',
    '/decisions?request=req-1': `[${record('d-2', '7')}]`,
  });
  const { code, out } = await explain(['--session', 'agent 7', '--admin', url]);
  expect(code).toBe(0);
  expect(out).toContain('decision d-2');
  const json = await explain(['--session', 'agent 7', '--json', '--admin', url]);
  expect(JSON.parse(json.out)).toMatchObject([{ id: 'd-2' }]);
  expect(seen[0]).toContain('/decisions?limit=1&session_id=agent%207');
  const unknown = await explain(['--session', 'other', '--admin', url]);
  expect(unknown.code).not.toBe(0);
  expect(unknown.err).toContain('remembers no decision of session "other"');
  const both = await explain(['--session', 'other', '--last']);
  expect(both.err).toContain('one of the three');
});
