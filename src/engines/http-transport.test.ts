import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { engineRequestFixture, workerFixture } from '../../tests/gateway-fixtures.ts';
import { NO_METRICS } from '../observe/index.ts';
import type { PointsmanError } from '../plugin/index.ts';
import { DIALECTS } from './dialects.ts';
import { createHttpTransport, type HttpTransport } from './http-transport.ts';
import type { EngineExchange, EngineReport, EngineRequest, EngineSink } from './types.ts';

type Handler = (req: IncomingMessage, res: ServerResponse, body: string) => void;

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

async function engine(handler: Handler): Promise<{ url: string; server: Server }> {
  const server = createServer((req, res) => {
    let body = '';
    req.on('data', (part) => {
      body += part;
    });
    req.on('end', () => handler(req, res, body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}

function connections(server: Server): Promise<number> {
  return new Promise((resolve) => server.getConnections((_error, count) => resolve(count)));
}

interface Heard {
  readonly calls: string[];
  status: number | null;
  headers: Readonly<Record<string, string>>;
  outcomes: number;
  text: string;
  report: EngineReport | null;
  error: PointsmanError | null;
}

function listen(onData?: () => void): { heard: Heard; sink: EngineSink; done: Promise<void> } {
  const heard: Heard = {
    calls: [],
    status: null,
    headers: {},
    outcomes: 0,
    text: '',
    report: null,
    error: null,
  };
  let finish = (): void => {};
  const done = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const sink: EngineSink = {
    head(status, headers, outcomes) {
      heard.calls.push('head');
      heard.status = status;
      heard.headers = headers;
      heard.outcomes = outcomes.length;
    },
    data(bytes) {
      heard.calls.push('data');
      heard.text += Buffer.from(bytes).toString('latin1');
      onData?.();
    },
    tokens: (count) => heard.calls.push(`tokens ${count}`),
    finished(report) {
      heard.calls.push('finished');
      heard.report = report;
      finish();
    },
    failed(error) {
      heard.calls.push('failed');
      heard.error = error;
      finish();
    },
  };
  return { heard, sink, done };
}

function transport(faults: string[] = []): HttpTransport {
  const created = createHttpTransport({
    dialects: DIALECTS,
    metrics: {
      ...NO_METRICS,
      count: (_name, labels = {}) => faults.push(`${labels.worker} ${labels.kind}`),
    },
  });
  closers.push(() => created.close());
  return created;
}

function to(url: string, over: Partial<EngineRequest> = {}): EngineRequest {
  return engineRequestFixture({ worker: workerFixture({ url }), ...over });
}

describe('createHttpTransport', () => {
  it('relays a whole answer, reads its usage, and keeps private and hop-by-hop headers back', async () => {
    const seen: { path: string | undefined; id: unknown; body: unknown }[] = [];
    const { url } = await engine((req, res, body) => {
      seen.push({ path: req.url, id: req.headers['x-request-id'], body: JSON.parse(body) });
      res.writeHead(200, {
        'content-type': 'application/json',
        'x-kv-hint-outcomes': '{"outcomes":[{"action_id":"a1","outcome":"accepted"}]}',
        'x-engine': 'kept',
        'set-cookie': 'a=b',
        'x-secret': 's',
        connection: 'keep-alive, x-secret',
      });
      res.end(
        '{"choices":[{"text":"ab","finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":2}}',
      );
    });
    const { heard, sink, done } = listen();
    transport().dispatch(to(`${url}/base/`), sink);
    expect(heard.calls).toEqual([]);
    await done;
    expect(seen).toEqual([
      {
        path: '/base/v1/completions',
        id: 'req-1',
        body: { prompt: [1, 4294967295], model: 'tiny-sim', max_tokens: 4, stream: false },
      },
    ]);
    expect(heard.calls).toEqual(['head', 'data', 'finished']);
    expect(heard.outcomes).toBe(1);
    expect(Object.keys(heard.headers).sort()).toEqual(['content-type', 'x-engine']);
    expect(heard.report?.finishReason).toBe('stop');
  });

  it('reports an engine that refuses connections as unreachable and counts it', async () => {
    const { url, server } = await engine(() => {});
    await new Promise((resolve) => server.close(resolve));
    const faults: string[] = [];
    const { heard, sink, done } = listen();
    transport(faults).dispatch(to(url), sink);
    await done;
    expect(heard.calls).toEqual(['failed']);
    expect(heard.error).toMatchObject({
      code: 'PM_ENGINE_UNREACHABLE',
      status: 502,
      message: 'worker 1 cannot be reached',
    });
    expect(faults).toEqual(['1 refused']);
  });

  it('reports an engine that dies before its head, and one that dies in the middle', async () => {
    const { url } = await engine((_req, res, body) => {
      if (JSON.parse(body).stream === false) return void res.socket?.destroy();
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      res.write('data: {"choices":[{"text":"a"}]}\n\ndata: {"cho', () => res.socket?.destroy());
    });
    const faults: string[] = [];
    const engines = transport(faults);
    const before = listen();
    engines.dispatch(to(url), before.sink);
    await before.done;
    expect(before.heard.calls).toEqual(['failed']);
    expect(before.heard.error?.code).toBe('PM_ENGINE_LOST');

    const middle = listen();
    engines.dispatch(to(url, { stream: true }), middle.sink);
    await middle.done;
    expect(middle.heard.calls).toEqual(['head', 'data', 'tokens 1', 'failed']);
    expect(middle.heard.text).toBe('data: {"choices":[{"text":"a"}]}\n\n');
    expect(middle.heard.error?.message).toBe('worker 1 closed the connection before its answer was complete');
    expect(faults).toEqual(['1 reset', '1 reset']);
  });

  it('passes the message of a 4xx on and keeps the text of a 5xx', async () => {
    const { url } = await engine((_req, res, body) => {
      const status = JSON.parse(body).max_tokens;
      res.writeHead(status, { 'retry-after': '7' });
      res.end('{"error":{"message":"at /srv/engine.py: too long"}}');
    });
    const engines = transport();
    const refused = listen();
    engines.dispatch(to(url, { body: { prompt: 'x', max_tokens: 422 } }), refused.sink);
    await refused.done;
    expect(refused.heard.error).toMatchObject({
      code: 'PM_ENGINE_REFUSED',
      message: 'at /srv/engine.py: too long',
      details: { engine_status: 422, retry_after: '7' },
    });
    const failed = listen();
    engines.dispatch(to(url, { body: { prompt: 'x', max_tokens: 503 } }), failed.sink);
    await failed.done;
    expect(failed.heard.calls).toEqual(['failed']);
    expect(failed.heard.error?.message).toBe('the engine failed with status 503');
  });

  it('does not wait for the rest of an error answer that never ends, or never comes', async () => {
    const { url, server } = await engine((_req, res, body) => {
      const { status, endless } = JSON.parse(body).metadata;
      res.writeHead(status);
      res.write('{"message":"no');
      if (!endless) return;
      const more = (): void => {
        while (!res.destroyed && res.write('x'.repeat(100_000)));
      };
      res.on('drain', more);
      more();
    });
    const faults: string[] = [];
    const engines = transport(faults);
    for (const [status, endless, code] of [
      [500, false, 'PM_ENGINE_FAILED'],
      [500, true, 'PM_ENGINE_FAILED'],
      [400, true, 'PM_ENGINE_REFUSED'],
    ] as const) {
      const { heard, sink, done } = listen();
      engines.dispatch(
        to(url, { body: { prompt: 'x', max_tokens: 1, metadata: { status, endless } } }),
        sink,
      );
      await done;
      expect(heard.calls).toEqual(['failed']);
      expect(heard.error?.code).toBe(code);
    }
    expect(faults).toEqual([]);
    while ((await connections(server)) > 0) await new Promise((resolve) => setImmediate(resolve));
  });

  it('takes a redirect for a failure and tells nobody where it leads', async () => {
    const { url } = await engine((_req, res) => {
      res.writeHead(302, { location: 'http://10.0.0.1/secret' });
      res.end();
    });
    const { heard, sink, done } = listen();
    transport().dispatch(to(url), sink);
    await done;
    expect(heard.calls).toEqual(['failed']);
    expect(heard.error).toMatchObject({
      code: 'PM_ENGINE_FAILED',
      message: 'the engine answered with status 302, which is no answer to a request to generate',
    });
  });

  it('drops the length of events that nobody asked for: an error event may end them early', async () => {
    const { url } = await engine((_req, res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream', 'content-length': '6' });
      res.end('data\n\n');
    });
    const { heard, sink, done } = listen();
    transport().dispatch(to(url), sink);
    await done;
    expect(Object.keys(heard.headers)).toEqual(['content-type']);
  });

  it('ends the engine side at once on abort, calls the sink no more, and faults nobody', async () => {
    let gone = (): void => {};
    const disconnected = new Promise<void>((resolve) => {
      gone = resolve;
    });
    const { url } = await engine((_req, res) => {
      res.on('close', gone);
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      res.write('data: {"choices":[{"text":"a"}]}\n\n');
    });
    const faults: string[] = [];
    let exchange: EngineExchange | null = null;
    const { heard, sink } = listen(() => exchange?.abort());
    exchange = transport(faults).dispatch(to(url, { stream: true }), sink);
    await disconnected;
    exchange.abort();
    expect(heard.calls).toEqual(['head', 'data']);
    expect(faults).toEqual([]);
  });

  it('sends nothing for a request that was aborted before it had a connection', async () => {
    let requests = 0;
    const { url } = await engine((_req, res) => {
      requests += 1;
      res.end('{}');
    });
    const engines = transport();
    const aborted = listen();
    engines.dispatch(to(url), aborted.sink).abort();
    const next = listen();
    engines.dispatch(to(url), next.sink);
    await next.done;
    expect(aborted.heard.calls).toEqual([]);
    expect(requests).toBe(1);
  });

  it('holds the engine back while paused and loses nothing', async () => {
    const part = Buffer.alloc(256 * 1024, 'x');
    const parts = 64;
    let stalled = (): void => {};
    const stall = new Promise<void>((resolve) => {
      stalled = resolve;
    });
    const { url } = await engine((_req, res) => {
      res.writeHead(200, { 'content-type': 'application/json' });
      let left = parts;
      const write = (): void => {
        while (left > 0) {
          left -= 1;
          if (!res.write(part)) {
            res.once('drain', write);
            // 64 parts do not fit into socket buffers: the engine waits for the reader before it is through.
            if (left < parts / 2) stalled();
            return;
          }
        }
        res.end();
      };
      write();
    });
    let exchange: EngineExchange | null = null;
    let paused = false;
    const { heard, sink, done } = listen(() => {
      if (paused) return;
      paused = true;
      exchange?.pause();
      setImmediate(() => {
        expect(heard.text.length).toBeLessThan(part.length * parts);
        exchange?.resume();
      });
    });
    exchange = transport().dispatch(to(url), sink);
    await done;
    await stall;
    expect(heard.text.length).toBe(part.length * parts);
    expect(heard.report?.source).toBe('none');
  });

  it('fails running exchanges when it closes, and new ones too', async () => {
    let arrived = (): void => {};
    const running = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const { url } = await engine(() => arrived());
    const engines = transport();
    const first = listen();
    engines.dispatch(to(url), first.sink);
    await running;
    engines.close();
    await first.done;
    expect(first.heard.calls).toEqual(['failed']);
    const second = listen();
    engines.dispatch(to(url), second.sink);
    expect(second.heard.calls).toEqual([]);
    await second.done;
    expect(second.heard.error?.message).toBe('the router is stopping');
  });

  it('fails a request for a dialect that is not loaded, naming those that are', async () => {
    const { heard, sink, done } = listen();
    transport().dispatch(engineRequestFixture({ worker: workerFixture({ dialect: 'trtllm' }) }), sink);
    await done;
    expect(heard.error?.message).toBe(
      'worker 1 has dialect "trtllm", which is not loaded; loaded: sim, vllm',
    );
  });
});
