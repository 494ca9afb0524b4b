import { request as httpRequest } from 'node:http';
import { afterEach, expect, it } from 'vitest';
import type { ThresholdChange } from '../config/index.ts';
import { createMetrics, NO_DECISIONS } from '../observe/index.ts';
import { NO_LOG } from '../plugin/index.ts';
import { createAdminServer } from './server.ts';
import type { AdminServer } from './types.ts';

const open: AdminServer[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => server.close()));
});

async function start(token: string | null = null) {
  const changes: ThresholdChange[] = [];
  const server = await createAdminServer({
    host: '127.0.0.1',
    port: 0,
    token,
    decisions: NO_DECISIONS,
    metrics: createMetrics(),
    workers: () => [],
    plugins: () => [],
    config: () => ({}),
    ready: () => ({ reasons: [], warnings: [] }),
    log: NO_LOG,
    busyThresholds: {
      list: () => [{ model: 'tiny', untested: { a: [18446744073709551615n] } }],
      change(change) {
        if (change.model !== 'tiny') return null;
        changes.push(change);
        return { model: 'tiny', changed: Object.keys(change.changes) };
      },
    },
  });
  open.push(server);
  return { server, changes };
}

function post(server: AdminServer, body: string, headers: Record<string, string> = {}) {
  return new Promise<{ status: number; body: unknown }>((resolve, reject) => {
    const options = { host: '127.0.0.1', port: server.port, path: '/busy_threshold', method: 'POST' };
    const length = { 'content-length': String(Buffer.byteLength(body)) };
    const request = httpRequest({ ...options, headers: { ...length, ...headers } }, (response) => {
      let text = '';
      response.on('data', (part: Buffer) => {
        text += part.toString();
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) }));
    });
    request.on('error', reject);
    request.end(body);
  });
}

it('the thresholds of every model are listed, and changed one by one', async () => {
  const { server, changes } = await start();
  const listed = await fetch(`${server.url}/busy_threshold`);
  expect(await listed.text()).toBe(
    '{"thresholds":[{"model":"tiny","untested":{"a":[18446744073709551615]}}]}',
  );
  expect(
    await post(
      server,
      '{"model":"tiny","active_decode_blocks_threshold":0,"active_prefill_tokens_threshold":null}',
    ),
  ).toEqual({ status: 200, body: { model: 'tiny', changed: ['activeDecodeBlocks', 'activePrefillTokens'] } });
  expect((await post(server, '{"model":"tiny","active_prefill_tokens_threshold_frac":1.5}')).status).toBe(
    200,
  );
  expect((await post(server, '{"model":"tiny"}')).body).toEqual({ model: 'tiny', changed: [] });
  expect(changes).toEqual([
    { model: 'tiny', changes: { activeDecodeBlocks: 0, activePrefillTokens: null } },
    { model: 'tiny', changes: { activePrefillTokensFrac: 1.5 } },
    { model: 'tiny', changes: {} },
  ]);
});

it.each([
  ['', 'the body is empty; it must be a JSON object'],
  ['{"model":', 'the body is not valid JSON'],
  ['\u0000', 'the body is not valid JSON'],
  [`${'['.repeat(30_000)}`, 'the body nests deeper than 16 levels'],
  [
    '[]',
    'expected a mapping (keys: model, active_decode_blocks_threshold, active_prefill_tokens_threshold, active_prefill_tokens_threshold_frac), found a list',
  ],
  ['{"active_decode_blocks_threshold":0.5}', "model: is required: a model's name"],
  ['{"model":7}', "model: expected a model's name, found 7"],
  ['{"model":"huge"}', 'model: there is no model "huge"; GET /busy_threshold lists those there are'],
  [
    '{"model":"tiny","active_decode_blocks_threshold":85,"active_prefill_tokens_threshold":"10"}',
    'active_decode_blocks_threshold: expected a number from 0 to 1, found 85; active_prefill_tokens_threshold: expected a whole number of at least 0, found "10"',
  ],
  [
    '{"model":"tiny","active_prefill_tokens_threshold":0.5}',
    'active_prefill_tokens_threshold: expected a whole number of at least 0, found 0.5',
  ],
  [
    '{"model":"tiny","active_prefill_tokens_threshold_frac":-1}',
    'active_prefill_tokens_threshold_frac: expected a number of at least 0, found -1',
  ],
  [
    '{"model":"tiny","active_prefill_tokens_threshold_frac":1e999}',
    'active_prefill_tokens_threshold_frac: expected a number of at least 0, found Infinity',
  ],
  [
    '{"model":"tiny","active_decode_block_threshold":0.5}',
    'active_decode_block_threshold: unknown key (did you mean "active_decode_blocks_threshold"?)',
  ],
])('%s is refused with the field and a remedy, and changes nothing', async (body, message) => {
  const { server, changes } = await start();
  const reply = await post(server, body);
  expect(reply).toEqual({ status: 400, body: { error: { code: 'PM_ADMIN_REQUEST', message } } });
  expect(changes).toEqual([]);
});

it('a change is taken from nobody who may not make one', async () => {
  const { server, changes } = await start();
  const body = '{"model":"tiny","active_decode_blocks_threshold":0}';
  const refused = [
    await post(server, body, { host: 'evil.example' }),
    await post(server, body, { origin: 'http://evil.example' }),
  ];
  const guarded = await start('hunter2');
  refused.push(await post(guarded.server, body));
  expect(refused.map(({ status }) => status)).toEqual([403, 403, 401]);
  expect((await post(guarded.server, body, { authorization: 'Bearer hunter2' })).status).toBe(200);
  expect([changes, guarded.changes.length]).toEqual([[], 1]);
});
