import { request as httpRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import {
  createMetrics,
  type DecisionFilter,
  type DecisionReader,
  type DecisionRecord,
} from '../observe/index.ts';
import { NO_LOG } from '../plugin/index.ts';
import { createAdminServer } from './server.ts';
import type { AdminOptions, AdminServer } from './types.ts';

const record = (id: string, request: string): DecisionRecord => ({
  schema: 1,
  id,
  request_id: request,
  attempt: 1,
  at_ms: 0,
  door: 'gateway',
  model: 'tiny',
  partition: { model: 'tiny', routing_group: 'default' },
  role: 'aggregated',
  mode: 'kv',
  policy: { type: 'round-robin', instance: null, version: 'builtin' },
  session: null,
  prompt: {
    tokens: 1,
    blocks: 1,
    block_size: 16,
    tokens_source: 'local',
    estimated: null,
    head_hash: 18446744073709551615n,
  },
  agent_hints: null,
  stripped: [],
  classification: null,
  handoff: null,
  affinity: null,
  queue: { class: 'default', waited_ms: 0, outcome: 'direct' },
  index: { kind: 'none', version: 0, per_worker_age_ms: {}, stale_workers: [] },
  parity: null,
  timing: null,
  candidates_total: 0,
  candidates: [],
  pick: { worker_id: 1n, dp_rank: 0, by: 'policy', ties: 1, random_draw: null, temperature: 0 },
  booking: { attempt_id: 1, prefill_tokens: 0, decode_blocks: 0, released: null, held_ms: null },
  hints: null,
  prediction: null,
  report: null,
  outcome: null,
  wall: { tokenize_us: 0, hash_us: 0, lookup_us: 0, select_us: 0, hint_us: 0 },
});

/** Remembers what it was asked. */
class Decisions implements DecisionReader {
  readonly asked: unknown[] = [];
  readonly #records = [record('d-2', 'req-a'), record('d-1', 'req-a')];

  list(limit: number, filter: DecisionFilter) {
    this.asked.push([limit, filter]);
    return this.#records.slice(0, limit);
  }

  get(id: string): DecisionRecord | null {
    return this.#records.find((candidate) => candidate.id === id) ?? null;
  }

  ofRequest(requestId: string): readonly DecisionRecord[] {
    return this.#records.filter((candidate) => candidate.request_id === requestId).reverse();
  }
}

const open: AdminServer[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => server.close()));
});

async function start(changes: Partial<AdminOptions> = {}): Promise<AdminServer> {
  const server = await createAdminServer({
    host: '127.0.0.1',
    port: 0,
    token: null,
    decisions: new Decisions(),
    metrics: createMetrics(),
    workers: () => [{ id: 18446744073709551615n, state: 'ready' }],
    plugins: () => [{ type: 'kv_fetch' }],
    config: () => ({ router: { mode: 'kv' } }),
    ready: () => ({ reasons: [], warnings: [] }),
    log: NO_LOG,
    addresses: { api: 'http://127.0.0.1:8000' },
    ...changes,
  });
  open.push(server);
  return server;
}

interface Reply {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

function call(
  server: AdminServer,
  path: string,
  headers: Record<string, string> = {},
  method = 'GET',
  body = '',
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      { host: '127.0.0.1', port: server.port, path, method, headers },
      (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => {
          text += chunk;
        });
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text }),
        );
      },
    );
    request.on('error', reject);
    request.end(body);
  });
}

test('workers, plugins and config answer exact JSON', async () => {
  const server = await start();
  expect((await call(server, '/workers')).text).toBe('[{"id":18446744073709551615,"state":"ready"}]');
  expect((await call(server, '/plugins')).text).toBe('[{"type":"kv_fetch"}]');
  const config = await call(server, '/config/');
  expect([config.status, config.headers['content-type'], config.text]).toEqual([
    200,
    'application/json',
    '{"router":{"mode":"kv"}}',
  ]);
});

test('the page lists the addresses and the paths, escaped', async () => {
  const server = await start({ addresses: { '<api>': 'http://127.0.0.1:8000/?a="b"&c' } });
  const { headers, text } = await call(server, '/');
  expect(headers['content-type']).toBe('text/html; charset=utf-8');
  expect(text).toContain('<li>&lt;api&gt;: <code>http://127.0.0.1:8000/?a=&quot;b&quot;&amp;c</code></li>');
  expect(text).toContain('<a href="/decisions">/decisions</a>');
  expect(text).not.toContain(':id');
});

test('metrics are served in the Prometheus text format', async () => {
  const { headers, text } = await call(await start(), '/metrics');
  expect(headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8');
  expect(text).toContain('# TYPE pointsman_requests_total counter');
});

test('decisions are listed without candidates, and one is shown in full', async () => {
  const decisions = new Decisions();
  const server = await start({ decisions });
  const listed = JSON.parse((await call(server, '/decisions')).text);
  expect(listed.map((item: object) => ['id' in item && item.id, 'candidates' in item])).toEqual([
    ['d-2', false],
    ['d-1', false],
  ]);
  await call(server, '/decisions?limit=1&session=5b1e09aa&worker=18446744073709551615');
  await call(server, '/decisions?limit=1&session_id=agent%207');
  expect(decisions.asked).toEqual([
    [50, {}],
    [1, { sessionIdHash: '5b1e09aa', workerId: 18446744073709551615n }],
    [1, { sessionId: 'agent 7' }],
  ]);
  const one = await call(server, '/decisions/d-1');
  expect(one.text).toContain('"head_hash":18446744073709551615');
  expect(one.text).toContain('"candidates":[]');
});

test('all attempts of a request are found by its id, oldest first', async () => {
  const { text } = await call(await start(), '/decisions?request=req-a');
  expect(
    JSON.parse(text).map((item: { id: string; candidates: unknown }) => [item.id, item.candidates]),
  ).toEqual([
    ['d-1', []],
    ['d-2', []],
  ]);
  expect((await call(await start(), '/decisions?request=gone')).text).toBe('[]');
});

test.each([
  ['/decisions?limit=0', 400, 'PM_ADMIN_QUERY', 'limit must be a whole number from 1 to 1000'],
  ['/decisions?limit=1e3', 400, 'PM_ADMIN_QUERY', 'limit must be a whole number from 1 to 1000'],
  ['/decisions?session_id=', 400, 'PM_ADMIN_QUERY', 'session_id must be 1 to 256 printable ASCII characters'],
  [
    '/decisions?limit=18446744073709551615',
    400,
    'PM_ADMIN_QUERY',
    'limit must be a whole number from 1 to 1000',
  ],
  ['/decisions?limt=5', 400, 'PM_ADMIN_QUERY', 'unknown parameter "limt" (did you mean "limit"?)'],
  [
    '/decisions?worker=-1',
    400,
    'PM_ADMIN_QUERY',
    'worker must be a worker id, from 0 to 18446744073709551615',
  ],
  [
    '/decisions?worker=18446744073709551616',
    400,
    'PM_ADMIN_QUERY',
    'worker must be a worker id, from 0 to 18446744073709551615',
  ],
  ['/decisions?limit=5&limit=6', 400, 'PM_ADMIN_QUERY', 'limit is given twice'],
  [
    '/decisions?session=my-session',
    400,
    'PM_ADMIN_QUERY',
    "session must be the 8 hexadecimal digits of a record's session.id_hash",
  ],
  [
    '/decisions?request=a&limit=3',
    400,
    'PM_ADMIN_QUERY',
    'request stands alone; leave out the other parameters',
  ],
  [
    '/decisions/d-9',
    404,
    'PM_ADMIN_NOT_FOUND',
    'no decision has the id "d-9"; the ring holds the newest within limits.decision_bytes, and requests refused before a worker was booked have none',
  ],
  ['/events', 404, 'PM_ADMIN_NOT_FOUND', 'the admin API has no GET /events; GET / lists what it has'],
  ['/%zz', 404, 'PM_ADMIN_NOT_FOUND', 'the admin API has no GET /%zz; GET / lists what it has'],
])('%s is refused with a reason', async (path, status, code, message) => {
  const reply = await call(await start(), path);
  expect(reply.status).toBe(status);
  expect(JSON.parse(reply.text)).toEqual({ error: { code, message } });
});

test('a reload is asked for by POST and answers what became of it, 409 when nothing changed', async () => {
  const results = ['applied', 'failed'];
  const server = await start({
    reload: () => Promise.resolve({ result: results.shift() ?? 'asked too often' }),
  });
  const post = (headers: Record<string, string> = {}) => call(server, '/plugins/reload', headers, 'POST');
  expect((await call(server, '/plugins/reload')).status).toBe(404);
  const here = `http://127.0.0.1:${server.port}`;
  const refused = [
    await post({ host: 'evil.example' }),
    await post({ origin: 'http://evil.example' }),
    await post({ origin: 'null' }),
  ];
  expect(refused.map((reply) => [reply.status, JSON.parse(reply.text).error.code])).toEqual([
    [403, 'PM_ADMIN_HOST'],
    [403, 'PM_ADMIN_HOST'],
    [403, 'PM_ADMIN_HOST'],
  ]);
  const taken = [await post({ origin: here, host: `127.0.0.1:${server.port}` }), await post()];
  expect(taken.map(({ status, text }) => [status, text])).toEqual([
    [200, '{"result":"applied"}'],
    [409, '{"result":"failed"}'],
  ]);
  const guarded = await start({ token: 'hunter2', reload: () => Promise.resolve({ result: 'applied' }) });
  const statuses = [{}, { authorization: 'Bearer hunter2' }].map((headers: Record<string, string>) =>
    call(guarded, '/plugins/reload', headers, 'POST').then(({ status }) => status),
  );
  expect(await Promise.all(statuses)).toEqual([401, 200]);
});

test('changes that do not exist are 404 with a JSON error', async () => {
  const reply = await call(await start(), '/plugins/reload', {}, 'POST');
  expect([reply.status, JSON.parse(reply.text).error.message]).toEqual([
    404,
    'the admin API has no POST /plugins/reload; GET / lists what it has',
  ]);
});

test('readiness answers 503 with the reasons', async () => {
  const reasons = ['no worker of model tiny is ready'];
  const warnings = ['the KV events of worker 2 rank 0 are not connected'];
  const server = await start({ ready: () => ({ reasons, warnings }) });
  const reply = await call(server, '/ready');
  expect([reply.status, JSON.parse(reply.text)]).toEqual([503, { status: 'not_ready', reasons, warnings }]);
  expect((await call(await start(), '/ready')).status).toBe(200);
});

test('without a token only a Host that names this machine is answered', async () => {
  const server = await start();
  const statuses = await Promise.all(
    [
      'localhost',
      '127.0.0.1:8001',
      '127.9.9.9',
      '[::1]:80',
      'evil.example',
      '127.0.0.1.evil.example',
      '10.0.0.1',
      'local host',
    ].map(async (host) => (await call(server, '/config', { host })).status),
  );
  expect(statuses).toEqual([200, 200, 200, 200, 403, 403, 403, 403]);
});

test('with a token every path but /health needs it, whatever the Host', async () => {
  const server = await start({ token: 'hunter2' });
  const tries: [string, Record<string, string>][] = [
    ['/health', {}],
    ['/config', {}],
    ['/config', { authorization: 'Bearer hunter' }],
    ['/config', { authorization: 'Basic hunter2' }],
    ['/config', { authorization: 'bearer hunter2', host: 'admin.example' }],
    ['/none', {}],
  ];
  const replies = await Promise.all(tries.map(([path, headers]) => call(server, path, headers)));
  expect(replies.map((reply) => reply.status)).toEqual([200, 401, 401, 401, 200, 401]);
  expect(replies[1]?.headers['www-authenticate']).toBe('Bearer');
});

test('bodies over the cap or of unstated length are refused', async () => {
  const server = await start();
  const large = await call(
    server,
    '/config',
    { 'content-length': '70000' },
    'POST',
    'x'.repeat(70_000),
  ).catch(() => null);
  // The refusal may reach the client as a status or as a closed connection, but never as an answer.
  expect(large === null || large.status === 413).toBe(true);
  expect((await call(server, '/config', { 'transfer-encoding': 'chunked' }, 'POST', 'x')).status).toBe(413);
});

test('headers over the cap end in 431', async () => {
  expect((await call(await start(), '/config', { 'x-filler': 'a'.repeat(20_000) })).status).toBe(431);
});

test('bytes that are no HTTP do not hurt the server', async () => {
  const server = await start();
  await new Promise<void>((resolve) => {
    const socket = connect(server.port, '127.0.0.1', () => socket.end('\u0000\u0001 nonsense\r\n\r\n'));
    socket.on('error', () => {});
    socket.on('close', () => resolve());
    socket.resume();
  });
  expect((await call(server, '/health')).status).toBe(200);
});

test('a failure inside is logged and answered without its text', async () => {
  const logged: unknown[] = [];
  const server = await start({
    workers: () => {
      throw new Error('inner detail');
    },
    log: { ...NO_LOG, error: (message, fields) => logged.push([message, fields]) },
  });
  const reply = await call(server, '/workers');
  expect([reply.status, reply.text.includes('inner detail')]).toEqual([500, false]);
  expect(logged).toEqual([['an admin request failed', { error: 'inner detail' }]]);
});

test('HEAD answers the headers alone', async () => {
  const reply = await call(await start(), '/config', {}, 'HEAD');
  expect([reply.status, reply.text, reply.headers['content-length']]).toEqual([200, '', '24']);
});

test('an address that is taken rejects the start', async () => {
  const server = await start();
  await expect(start({ port: server.port })).rejects.toMatchObject({ code: 'EADDRINUSE' });
});
