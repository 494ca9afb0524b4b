// Pointsman in front of SGLang, as its protocol double plays it: the quick start of docs/engines/sglang.md with its very flags and
// configuration, and each feature of the dialect by the bytes that arrive.
import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  createHttpTransport,
  DIALECTS,
  type EngineReport,
  type EngineRequest,
} from '../src/engines/index.ts';
import type { KvHintAction, PointsmanError } from '../src/plugin/index.ts';
import { readSglangServe, type SglangDouble } from '../src/simulator/index.ts';
import { TINY_TOKENIZER } from '../src/tokens/index.ts';
import { engineRequestFixture, workerFixture } from './gateway-fixtures.ts';
import { router } from './live-support.ts';
import { listenTo, startDouble, stopDoubles } from './support/sglang-servers.ts';

const page = readFileSync(new URL('../docs/engines/sglang.md', import.meta.url), 'utf8');
const block = (language: string): string =>
  new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``).exec(page)?.[1] ?? '';

afterEach(stopDoubles);

/** Words of a shell command: quotes and continued lines. */
function shellWords(command: string): string[] {
  const joined = command.replaceAll('\\\n', ' ');
  return [...joined.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
}

/** The double of a server with these flags, on free ports. */
function serverOf(flags: readonly string[]): Promise<SglangDouble> {
  const free = flags.map((word) => word.replace(/(tcp:\/\/\*):\d+/g, '$1:0'));
  const { settings, double } = readSglangServe(free);
  return startDouble(settings, { ...double, port: 0 });
}

const ids = (count: number, from = 1): number[] => Array.from({ length: count }, (_, at) => from + at);

describe('the quick start', () => {
  const [python, m, module, ...flags] = shellWords(block('sh'));

  it('routes by what the server tells, and predicts what it reports', async () => {
    expect([python, m, module]).toEqual(['python', '-m', 'sglang.launch_server']);
    const double = await serverOf(flags);
    const yaml = block('yaml')
      .replace('http://127.0.0.1:30000', double.url)
      .replace('./tokenizer.json', TINY_TOKENIZER.tokenizer)
      .replace('./chat_template.jinja', TINY_TOKENIZER.template);
    const running = await router(`${yaml}
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
`);
    const workers = async () => JSON.parse(await (await fetch(`${running.adminUrl}/workers`)).text());
    await vi.waitFor(
      async () => expect((await workers())[0].ranks[0].kv_events).toMatchObject({ connected: true }),
      {
        timeout: 20_000,
      },
    );
    const complete = async (prompt: readonly number[]) => {
      const answer = await fetch(`${running.url}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'tiny', prompt, max_tokens: 2 }),
      });
      const { usage } = JSON.parse(await answer.text());
      const id = answer.headers.get('x-request-id') ?? '';
      const decision = await vi.waitFor(async () => {
        const [found] = JSON.parse(await (await fetch(`${running.adminUrl}/decisions?request=${id}`)).text());
        expect(found?.report?.cached_tokens).toBeTypeOf('number');
        return found;
      });
      return [
        decision.prediction?.cached_tokens ?? 0,
        decision.report.cached_tokens,
        usage.prompt_tokens_details.cached_tokens,
      ];
    };
    expect(await complete(ids(40))).toEqual([0, 0, 0]);
    await vi.waitFor(async () => expect(await complete(ids(40))).toEqual([32, 32, 32]), { timeout: 20_000 });
    expect(await complete(ids(60))).toEqual([32, 32, 32]);
    const last = double
      .requests()
      .filter(({ path }) => path === '/v1/completions')
      .at(-1);
    expect(last?.body.toString()).toMatch(
      new RegExp(
        `^\\{"prompt":\\[${ids(60).join()}\\],"model":"tiny-sim","max_tokens":2,"stream":false,"rid":"[^"]+"\\}$`,
      ),
    );
  });
});

it('reads flags as the server does, and no others', () => {
  expect(
    readSglangServe(['--model-path', 'm', '--page-size', '4', '--max-total-tokens', '402', '--dp-size', '2']),
  ).toEqual({
    settings: { model: 'm', blockSize: 4, kvBlocks: 100 },
    double: { ranks: 2 },
  });
  const events = (config: string) => readSglangServe(['--kv-events-config', config]).double.events;
  expect(events('{"endpoint":"tcp://*:1"}')).toBeNull();
  expect(events('{"publisher":"zmq"}')).toEqual({ topic: '', base: 5557, replayBase: null });
  expect(() => readSglangServe(['--block-size', '4'])).toThrow('--block-size is not known to the double');
  expect(() => readSglangServe(['--page-size'])).toThrow('--page-size takes a value');
  expect(() => readSglangServe(['--page-size', 'x'])).toThrow(
    '--page-size is "x"; it must be a whole number',
  );
  expect(() => readSglangServe(['--kv-events-config', '{'])).toThrow('--kv-events-config is not JSON');
});

/** Sends requests by the dialect to a double, and counts the calls beside them. */
function dispatcher(url: string) {
  const counts: string[] = [];
  const logged: string[] = [];
  const transport = createHttpTransport({
    dialects: DIALECTS,
    metrics: {
      count: (name, labels = {}) => {
        if (name === 'pointsman_engine_side_calls_total') counts.push(`${labels.call} ${labels.result}`);
      },
      observe() {},
      gauge() {},
    },
    log: { debug() {}, info() {}, warn: (message) => logged.push(message), error() {} },
  });
  const worker = workerFixture({
    url,
    dialect: 'sglang',
    sglang: { closeSession: true, openaiHints: false, rankField: 'routed_dp_rank', lowPriorityFirst: false },
  });
  const send = (over: Partial<EngineRequest>, onToken: () => void = () => undefined) => {
    let text = '';
    let abort: () => void = () => undefined;
    const ended = new Promise<{ text: string; report: EngineReport | PointsmanError }>((resolve) => {
      const end = (report: EngineReport | PointsmanError) => resolve({ text, report });
      const exchange = transport.dispatch(engineRequestFixture({ worker, ...over }), {
        head() {},
        data: (bytes) => {
          text += Buffer.from(bytes).toString('utf8');
        },
        tokens: onToken,
        finished: end,
        failed: end,
      });
      abort = () => exchange.abort();
    });
    return { ended, abort: () => abort() };
  };
  return { send, counts, logged, close: () => transport.close() };
}

const hint = (...actions: KvHintAction[]) =>
  ({ protocol_version: '0.1', message_id: 'm-1', actions }) as const;
const EVICT: KvHintAction = {
  action_id: 'a1',
  action_type: 'kv.evict',
  action_version: '1.0',
  payload: { block_hashes: BigUint64Array.of(1n), execute_at: 'request_completion' },
};

it.each([false, true])(
  'has a prompt fetched from a peer by a hint, increments %s, unknown actions skipped',
  async (incremental) => {
    const source = await startDouble({}, { events: { topic: '', base: 0, replayBase: null } });
    const prompt = ids(13);
    const heard = await listenTo(source);
    const at = dispatcher(source.url);
    await vi.waitFor(async () => {
      await fetch(`${source.url}/flush_cache`, { method: 'POST' });
      await at.send({ tokens: Uint32Array.from(prompt) }).ended;
      expect(heard.hashes(prompt)).toHaveLength(3);
    });
    at.close();
    const hashes = heard.hashes(prompt);
    const target = await startDouble({}, { incremental });
    const to = dispatcher(target.url);
    const fetchAction: KvHintAction = {
      action_id: 'a2',
      action_type: 'kv.fetch',
      action_version: '1.0',
      payload: {
        source_control_endpoint: source.control[0] ?? '',
        block_hashes: BigUint64Array.from(hashes),
      },
    };
    const unknown: KvHintAction = {
      action_id: 'a1',
      action_type: 'acme.pin',
      action_version: '1.0',
      payload: {},
    };
    const { text, report } = await to.send({
      tokens: Uint32Array.from(prompt),
      stream: true,
      body: { prompt: 'x', max_tokens: 3, stream_options: { include_usage: true } },
      hint: hint(unknown, fetchAction),
    }).ended;
    to.close();
    expect(report).toMatchObject({
      promptTokens: 13,
      cachedTokens: 12,
      outputTokens: 3,
      finishReason: 'length',
    });
    expect(text.match(/"finish_reason":"length"/g)).toHaveLength(1);
    expect(text.endsWith('"prompt_tokens_details":{"cached_tokens":12}}}\n\ndata: [DONE]\n\n')).toBe(true);
    const words = [...text.matchAll(/"text":("(?:[^"\\]|\\.)*")/g)].map(([, word = '""']): string =>
      JSON.parse(word),
    );
    expect(words).toHaveLength(3);
    const [request] = target.requests();
    expect([request?.path, request?.body.toString()]).toEqual([
      '/generate',
      `{"input_ids":[${prompt.join()}],"sampling_params":{"max_new_tokens":3},"stream":true,"rid":"req-1","kv_hints":` +
        '{"protocol_version":"0.1","message_id":"m-1","actions":[' +
        '{"action_id":"a1","action_type":"acme.pin","action_version":"1.0","payload":{}},' +
        `{"action_id":"a2","action_type":"kv.fetch","action_version":"1.0","payload":{"source_control_endpoint":"${source.control[0]}","block_hashes":[${hashes.join()}]}}]}}`,
    ]);
  },
);

it('pins ranks, and names nothing to a server of one', async () => {
  const double = await startDouble({}, { ranks: 2 });
  const { send, close } = dispatcher(double.url);
  const worker = workerFixture({ url: double.url, dialect: 'sglang', ranks: { first: 0, count: 2 } });
  let requests = 0;
  const cached = async (rank: number) => {
    requests += 1;
    const { report } = await send({
      worker,
      rank,
      tokens: Uint32Array.from(ids(9)),
      requestId: `r-${requests}`,
    }).ended;
    return 'promptTokens' in report ? report.promptTokens : report.message;
  };
  expect([await cached(1), await cached(0)]).toEqual([9, 9]);
  close();
  expect(double.requests().map(({ headers }) => headers['x-data-parallel-rank'])).toEqual(['1', '0']);
});

it('ends a session once, after its last answer, and counts and logs a server that does not take it', async () => {
  const double = await startDouble();
  const { send, counts, logged, close } = dispatcher(double.url);
  const session = { sessionId: 's-1', agentHeaders: {} };
  await send({ session, hint: hint(EVICT) }).ended;
  await send({ session: { ...session, sessionFinal: true }, hint: hint(EVICT), requestId: 'last' }).ended;
  await vi.waitFor(() => expect(counts).toEqual(['close_session ok']));
  expect(double.closedSessions()).toEqual(['s-1']);
  const paths = double.requests().map(({ path }) => path);
  expect(paths.filter((path) => path === '/close_session')).toHaveLength(1);
  expect(paths.at(-1)).toBe('/close_session');
  expect(double.requests().at(-1)?.body.toString()).toBe('{"session_id":"s-1"}');
  close();

  const { createServer } = await import('node:http');
  const server = createServer((request, response) => {
    request.resume();
    request.on('end', () => {
      response.writeHead(request.url === '/close_session' ? 500 : 200, {
        'content-type': 'application/json',
      });
      response.end('{"choices":[],"usage":{"prompt_tokens":1}}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const broken = dispatcher(
    `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`,
  );
  const { report } = await broken.send({ session: { ...session, sessionFinal: true }, hint: hint(EVICT) })
    .ended;
  expect(report).toMatchObject({ promptTokens: 1 });
  await vi.waitFor(() => expect(broken.counts).toEqual(['close_session failed']));
  expect(broken.logged).toEqual(['worker 1 did not take /close_session: status 500']);
  expect(logged).toEqual([]);
  broken.close();
  server.close();
});

it('aborts a request by name when its client leaves, sooner than the server would notice', async () => {
  const double = await startDouble({ speedup: 0.001 }, { noticesAfterMs: 60_000 });
  const { send, counts, close } = dispatcher(double.url);
  const { abort } = send({ tokens: Uint32Array.from(ids(9)) });
  await vi.waitFor(() => expect(double.active()).toBe(1));
  abort();
  await vi.waitFor(() => expect([double.active(), counts]).toEqual([0, ['abort ok']]));
  expect(double.requests().at(-1)?.body.toString()).toBe('{"rid":"req-1"}');
  close();
});

it('is asked which ids a chat became, which only the router gets to see; never of a stream, which it would refuse', async () => {
  const double = await startDouble();
  const { close, send } = dispatcher(double.url);
  const body = { messages: [{ role: 'user', content: 'on the town' }], max_tokens: 2 };
  const chat = { api: 'chat', tokens: null, asksPromptTokenIds: true } as const;
  const whole = await send({ ...chat, body }).ended;
  const theirs = await send({ ...chat, body: { ...body, return_prompt_token_ids: true } }).ended;
  const stream = await send({ ...chat, body, stream: true }).ended;
  close();
  const { choices, usage } = JSON.parse(theirs.text);
  const tokens: number[] = choices[0].prompt_token_ids;
  expect([tokens.length, tokens.length > 3]).toEqual([usage.prompt_tokens, true]);
  expect(whole.report).toMatchObject({ promptTokenIds: Uint32Array.from(tokens) });
  expect(whole.text).not.toContain('prompt_token_ids');
  expect(stream.report).toMatchObject({ finishReason: 'length' });
});

it('hands a prompt over in a room', async () => {
  const prefill = await startDouble({ role: 'prefill', handoff: 'bootstrap' });
  const decode = await startDouble({ role: 'decode', handoff: 'bootstrap' }, { reportsCache: true });
  const { hostname: host, port } = new URL(prefill.control[0] ?? '');
  const handoff = {
    shape: 'sglang',
    host,
    port: Number(port),
    room: 9223372036854775807n,
    prefillRank: null,
  } as const;
  const tokens = Uint32Array.from(ids(9));
  const [left, right] = [dispatcher(prefill.url), dispatcher(decode.url)];
  const body = { prompt: 'x', max_tokens: 2 };
  const [first, second] = await Promise.all([
    left.send({ tokens, handoff, body: { ...body, max_tokens: 1 } }).ended,
    right.send({ tokens, handoff, body }).ended,
  ]);
  expect(first.report).toMatchObject({ outputTokens: 1 });
  expect(second.report).toMatchObject({ outputTokens: 2 });
  expect(decode.requests()[0]?.body.toString()).toContain(
    `"bootstrap_host":"${host}","bootstrap_port":${port},"bootstrap_room":9223372036854775807`,
  );
  left.close();
  right.close();
});
