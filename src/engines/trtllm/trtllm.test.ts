// Replays exchanges with `trtllm-serve`: what is sent, byte by byte, and what is made of the answer. They are written from its documented
// request and response models, not recorded from a server.
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import * as fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { engineRequestFixture, workerFixture } from '../../../tests/gateway-fixtures.ts';
import { NO_METRICS } from '../../observe/index.ts';
import type { KvHintAction, PointsmanError } from '../../plugin/index.ts';
import { DIALECTS } from '../dialects.ts';
import { createHttpTransport } from '../http-transport.ts';
import type { EngineReport, EngineRequest } from '../types.ts';
import { describeTrtllm, readOwnModels } from './describe.ts';
import { loweringOutcomes, writeCall } from './engine-call.ts';
import { retentionOf } from './retention.ts';

interface Exchange {
  readonly request?: string;
  readonly path?: string;
  readonly status?: number;
  readonly answer: string;
}
const EXCHANGES: Readonly<Record<string, Exchange>> = JSON.parse(
  readFileSync(new URL('../../../tests/fixtures/trtllm-exchanges.json', import.meta.url), 'utf8'),
);
function exchange(name: string): Exchange {
  const found = EXCHANGES[name];
  if (found === undefined) throw new Error(`there is no exchange ${name}`);
  return found;
}

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** Serves the answer of an exchange and says what was sent, what the client got and what was reported. */
async function replay(name: string, over: Partial<EngineRequest> = {}) {
  const { answer, request: expected, status = 200 } = exchange(name);
  let sent = '';
  const server: Server = createServer((incoming, response) => {
    incoming.on('data', (bytes: Buffer) => {
      sent += bytes.toString('utf8');
    });
    incoming.on('end', () => {
      const type = answer.startsWith('data:') ? 'text/event-stream' : 'application/json';
      response.writeHead(status, { 'content-type': type });
      response.end(answer);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const transport = createHttpTransport({ dialects: DIALECTS, metrics: NO_METRICS });
  closers.push(
    () => transport.close(),
    () => server.close(),
  );
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const worker = workerFixture({ dialect: 'trtllm', url: `http://127.0.0.1:${port}` });
  let got = '';
  const tokens: number[] = [];
  const ended = await new Promise<EngineReport | PointsmanError>((resolve) => {
    transport.dispatch(engineRequestFixture({ worker, ...over }), {
      head() {},
      data: (bytes) => {
        got += Buffer.from(bytes).toString('utf8');
      },
      tokens: (count) => tokens.push(count),
      finished: resolve,
      failed: resolve,
    });
  });
  expect(sent).toBe(expected);
  return { got, ended, tokens, answer };
}

const RETAIN: KvHintAction = {
  action_id: 'a2',
  action_type: 'kv.retain',
  action_version: '1.1',
  payload: {
    scope: null,
    directives: [
      { start: 0, end: 64, priority: 90, duration: 30 },
      { start: 64, priority: 50 },
      { covers_output: true, priority: 10, duration: 0.5 },
    ],
  },
};
const OTHER: KvHintAction = { action_id: 'a1', action_type: 'kv.evict', action_version: '1.0', payload: {} };
const hint = { protocol_version: '0.1', message_id: 'm', actions: [OTHER, RETAIN] } as const;

describe('an exchange with trtllm-serve', () => {
  it('is a completion of token ids', async () => {
    const { ended, got, answer } = await replay('completion');
    expect(got).toBe(answer);
    expect(ended).toMatchObject({
      promptTokens: 2,
      cachedTokens: 1,
      outputTokens: 4,
      finishReason: 'length',
    });
  });

  it('is a stream, whose usage the client gets to see only if it asked', async () => {
    const body = { model: 'tiny', prompt: 'x', max_tokens: 2 };
    const { ended, got, answer } = await replay('stream', { stream: true, body });
    expect(ended).toMatchObject({ promptTokens: 2, cachedTokens: 0, outputTokens: 2 });
    const events = answer.split('\n\n');
    expect(got).toBe([...events.slice(0, 2), ...events.slice(3)].join('\n\n'));
  });

  it('is a chat', async () => {
    const body = { model: 'tiny', messages: [{ role: 'user', content: 'hi' }] };
    const { ended, got, answer } = await replay('chat', { api: 'chat', body });
    expect(got).toBe(answer);
    expect(ended).toMatchObject({ cachedTokens: 8, finishReason: 'stop' });
  });

  it('adds no member that its request models lack: not session, priority, name or what the client said of those', async () => {
    const body = {
      model: 'tiny',
      prompt: 'x',
      max_tokens: 4,
      priority: 1,
      session_id: 's',
      rid: 'r',
      disaggregated_params: {},
    };
    await replay('completion', { body, priority: 7, session: { sessionId: 's', agentHeaders: {} } });
  });

  it('carries token ranges to retain to a worker that declared it', async () => {
    await replay('retention', { hint });
  });

  it('is refused in the words of the server', async () => {
    const { ended } = await replay('refusal', { body: { prompt: 'x', unheard_of: 1 } });
    expect(ended).toMatchObject({
      code: 'PM_ENGINE_REFUSED',
      message: expect.stringContaining('Extra inputs are not permitted'),
    });
  });
});

it('says which actions were not sent', () => {
  expect(loweringOutcomes(engineRequestFixture({ hint }))).toEqual([
    expect.objectContaining({ actionId: 'a1', outcome: 'rejected', reason: 'not_in_dialect' }),
  ]);
});

it('lets a range without an end cover the output, and leaves the output alone otherwise', () => {
  const config = (...directives: object[]) =>
    retentionOf({ ...RETAIN, payload: { directives: JSON.parse(JSON.stringify(directives)) } });
  expect(config({ priority: 80, duration: 1 })).toEqual({
    token_range_retention_configs: [{ token_start: 0, token_end: null, priority: 80, duration_ms: 1000 }],
    decode_retention_priority: 80,
    decode_duration_ms: 1000,
  });
  expect(config({ end: 8, priority: 80 })).toMatchObject({
    decode_retention_priority: 35,
    decode_duration_ms: null,
  });
  expect([config({ priority: 'high' }), config({ start: 'a', priority: 1 }), retentionOf(OTHER)]).toEqual([
    null,
    null,
    null,
  ]);
});

it.each([
  [
    'a handoff',
    { handoff: { shape: 'vllm', params: {} } } as const,
    'worker 1 has dialect trtllm, whose context and generation servers are not joined here; give it the role aggregated',
  ],
  [
    'ranks behind one url',
    { worker: workerFixture({ ranks: { first: 0, count: 2 } }) },
    'worker 1 has dialect trtllm, whose server takes no rank with a request; leave ranks out and give each server its own url',
  ],
  ['no body', { body: null }, 'a request without a body cannot be sent over HTTP'],
])('refuses %s', (_, over, sentence) => {
  expect(() => writeCall(engineRequestFixture(over))).toThrow(sentence);
});

it('is known by the owner of its model', async () => {
  const ask = (known: readonly string[]) =>
    describeTrtllm(async ({ path }) => {
      const found = known.map(exchange).find((one) => one.path === path);
      return found === undefined ? { status: 404, text: '' } : { status: 200, text: found.answer };
    });
  expect(await ask(['version', 'models'])).toMatchObject({
    version: '1.2.0',
    models: ['tiny-sim'],
    blockSize: null,
  });
  expect([await ask(['version']), (await ask(['models']))?.version]).toEqual([null, null]);
});

it('reads any list of models, and any directive, without throwing', () => {
  fc.assert(fc.property(fc.oneof(fc.string(), fc.json()), (text) => void readOwnModels(text)));
  fc.assert(
    fc.property(fc.jsonValue(), (directives) => {
      retentionOf({ ...RETAIN, payload: { directives: JSON.parse(JSON.stringify(directives)) } });
    }),
  );
});
