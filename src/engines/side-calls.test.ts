// Calls beside requests, to engines that take them, that do not, and that are gone.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { engineRequestFixture, workerFixture } from '../../tests/gateway-fixtures.ts';
import { NO_METRICS } from '../observe/index.ts';
import { NO_LOG } from '../plugin/index.ts';
import { DIALECTS } from './dialects.ts';
import { createHttpTransport, type HttpTransport } from './http-transport.ts';
import { MAX_SIDE_CALLS } from './side-calls.ts';
import type { EngineExchange } from './types.ts';

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0).reverse()) close();
});

interface Engine {
  readonly url: string;
  /** Requests to generate that it has, none of which it answers. */
  readonly generating: ServerResponse[];
  readonly aborts: string[];
  connections(): Promise<number>;
}

async function engine(onAbort: (res: ServerResponse) => void): Promise<Engine> {
  const generating: ServerResponse[] = [];
  const aborts: string[] = [];
  const server = createServer((req: IncomingMessage, res: ServerResponse) => {
    let body = '';
    req.on('data', (part) => {
      body += part;
    });
    req.on('end', () => {
      if (req.url !== '/abort_request') {
        generating.push(res);
        return;
      }
      aborts.push(body);
      onAbort(res);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    generating,
    aborts,
    connections: () => new Promise((resolve) => server.getConnections((_, count) => resolve(count))),
  };
}

function transport(): { transport: HttpTransport; counts: Map<string, number>; warnings: string[] } {
  const counts = new Map<string, number>();
  const warnings: string[] = [];
  const created = createHttpTransport({
    dialects: DIALECTS,
    log: { ...NO_LOG, warn: (message) => warnings.push(message) },
    metrics: {
      ...NO_METRICS,
      count(name, labels = {}) {
        if (name !== 'pointsman_engine_side_calls_total') return;
        const key = `${labels.call} ${labels.result}`;
        counts.set(key, (counts.get(key) ?? 0) + 1);
      },
    },
  });
  closers.push(() => created.close());
  return { transport: created, counts, warnings };
}

const SINK = { head() {}, data() {}, tokens() {}, finished() {}, failed() {} };

async function generating(on: HttpTransport, { url, generating: have }: Engine, count: number) {
  const worker = workerFixture({ url, dialect: 'sglang' });
  const exchanges: EngineExchange[] = [];
  for (let at = 0; at < count; at += 1)
    exchanges.push(on.dispatch(engineRequestFixture({ worker, requestId: `req-${at}` }), SINK));
  await vi.waitFor(() => expect(have).toHaveLength(count));
  return exchanges;
}

describe('calls beside requests', () => {
  it('do not pile up at an engine that takes none, and its log stays readable', async () => {
    const dead = await engine(() => {});
    const { counts, transport: on, warnings } = transport();
    const exchanges = await generating(on, dead, MAX_SIDE_CALLS + 40);
    for (const exchange of exchanges) exchange.abort();
    await vi.waitFor(() => expect(dead.aborts).toHaveLength(MAX_SIDE_CALLS));
    expect(counts).toEqual(new Map([['abort failed', 40]]));
    expect(warnings).toEqual([
      'worker 1 did not take /abort_request: too many such calls wait for its answer',
    ]);
  });

  it('are made again once the engine has taken some', async () => {
    const slow: ServerResponse[] = [];
    const busy = await engine((res) => slow.push(res));
    const { counts, transport: on } = transport();
    const exchanges = await generating(on, busy, MAX_SIDE_CALLS + 1);
    const last = exchanges.pop();
    for (const exchange of exchanges) exchange.abort();
    await vi.waitFor(() => expect(slow).toHaveLength(MAX_SIDE_CALLS));
    for (const res of slow.splice(0)) res.end('{}');
    await vi.waitFor(() => expect(counts.get('abort ok')).toBe(MAX_SIDE_CALLS));
    last?.abort();
    await vi.waitFor(() => expect(slow).toHaveLength(1));
  });

  it('reach an engine whose worker has left, and leave no connection to it', async () => {
    const left = await engine((res) => res.end('{}'));
    const { counts, transport: on } = transport();
    const [exchange] = await generating(on, left, 1);
    on.forget(left.url);
    exchange?.abort();
    await vi.waitFor(() => expect(counts).toEqual(new Map([['abort ok', 1]])));
    // Idle ones are kept for four seconds.
    await vi.waitFor(async () => expect(await left.connections()).toBe(0), { timeout: 2_000 });
  });
});
