import { connect, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { type Bench, bench, COMPLETION, REPORT, raw, SSE, STREAM } from '../../tests/gateway-bench.ts';
import { PointsmanError } from '../plugin/index.ts';

/** A request as bytes. */
function bytes(body: object): string {
  const text = JSON.stringify(body);
  return `POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: ${text.length}\r\n\r\n${text}`;
}

async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

async function arrivals(on: Bench, count: number): Promise<void> {
  while (on.road.arrivals.length < count) await turn();
}

/** A client that keeps its own end open, and all that it was sent. */
async function halfOpen(on: Bench, text: string): Promise<{ socket: Socket; heard: () => string }> {
  const socket = connect({ port: on.port, host: '127.0.0.1', allowHalfOpen: true });
  let heard = '';
  socket.on('data', (part) => {
    heard += part;
  });
  socket.on('error', () => {});
  socket.write(text);
  return { socket, heard: () => heard };
}

describe('a connection that closes', () => {
  it('ends every request on it, also those that waited behind another one', async () => {
    const on = await bench();
    const { socket } = raw(on, bytes(STREAM) + bytes(STREAM) + bytes(COMPLETION));
    await arrivals(on, 3);
    on.road.arrivals[0]?.sink.head(200, SSE);
    on.road.arrivals[1]?.sink.head(200, SSE);
    on.road.arrivals[1]?.sink.data(Buffer.from('data: 1\n\n'));
    socket.destroy();
    while (on.gateway.activeRequests() > 0) await turn();
    expect(on.road.arrivals.map(({ aborts }) => aborts)).toEqual([1, 1, 1]);
  });

  it('is what the road hears when it asks whether somebody waits', async () => {
    const on = await bench();
    const { socket } = raw(on, bytes(STREAM));
    await arrivals(on, 1);
    const sink = on.road.arrivals[0]?.sink;
    expect(sink?.waits?.()).toBe(true);
    sink?.head(200, SSE);
    expect(sink?.waits?.()).toBe(true);
    socket.destroy();
    while (on.gateway.activeRequests() > 0) await turn();
    expect(sink?.waits?.()).toBe(false);
  });

  it('ends a request whose answer is given up before the road has returned its ticket', async () => {
    const on = await bench();
    on.road.onArrival = () => {
      void on.gateway.stop(0);
      on.clock.advanceTo(on.clock.now());
    };
    const { socket } = raw(on, bytes(STREAM));
    await arrivals(on, 1);
    expect(on.road.arrivals[0]?.aborts).toBe(1);
    socket.destroy();
  });

  it('answers pipelined requests in their order', async () => {
    const on = await bench();
    const { socket, text } = raw(on, bytes(STREAM) + bytes(STREAM));
    await arrivals(on, 2);
    for (const [at, word] of [
      [1, 'second'],
      [0, 'first'],
    ] as const) {
      const sink = on.road.arrivals[at]?.sink;
      sink?.head(200, SSE);
      sink?.data(Buffer.from(`data: ${word}\n\n`));
      sink?.finished(REPORT);
    }
    let heard = '';
    socket.on('data', (part) => {
      heard += part;
      if (heard.includes('second')) socket.end();
    });
    const all = await text;
    expect(all.indexOf('first')).toBeGreaterThan(0);
    expect(all.indexOf('second')).toBeGreaterThan(all.indexOf('first'));
    expect(on.gateway.activeRequests()).toBe(0);
  });
});

describe('bytes that are no request', () => {
  it('behind a request whose answer is under way cut the connection and are not answered into it', async () => {
    const on = await bench();
    const { socket, text } = raw(on, bytes(STREAM));
    await arrivals(on, 1);
    on.road.arrivals[0]?.sink.head(200, SSE);
    on.road.arrivals[0]?.sink.data(Buffer.from('data: 1\n\n'));
    socket.write('NONSENSE\r\n\r\n');
    const all = await text;
    expect(all).not.toContain('400 Bad Request');
    expect(on.road.arrivals[0]?.aborts).toBe(1);
    expect(on.gateway.activeRequests()).toBe(0);
  });

  it('in a body are answered, and the request ends although the client keeps its end open', async () => {
    const on = await bench();
    const { socket, heard } = await halfOpen(
      on,
      'POST /v1/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nNONSENSE\r\n',
    );
    while (!heard().includes('the request is not valid HTTP')) await turn();
    expect(on.gateway.activeRequests()).toBe(1);
    on.clock.advanceTo(on.clock.now() + 1000);
    while (on.gateway.activeRequests() > 0) await turn();
    socket.destroy();
  });
});

describe('an answer before the body is complete', () => {
  it('reaches a client that goes on sending, and the connection ends two seconds later', async () => {
    const on = await bench();
    const { socket, text } = raw(
      on,
      'POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n',
    );
    let heard = '';
    socket.on('data', (part) => {
      heard += part;
    });
    while (!heard.includes('PM_BODY_TOO_LARGE')) await turn();
    socket.write('x'.repeat(1000));
    await turn();
    expect(socket.destroyed).toBe(false);
    on.clock.advanceTo(on.clock.now() + 2000);
    expect(await text).toMatch(/^HTTP\/1\.1 413 /);
  });

  it('keeps the connection when the rest of the body comes', async () => {
    const on = await bench();
    const { socket, text } = raw(
      on,
      'POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 5000\r\n\r\n',
    );
    let heard = '';
    socket.on('data', (part) => {
      heard += part;
      if (heard.includes('healthy')) socket.end();
    });
    while (!heard.includes('PM_BODY_TOO_LARGE')) await turn();
    socket.write(`${'x'.repeat(5000)}GET /health HTTP/1.1\r\nhost: x\r\n\r\n`);
    expect(await text).toContain('{"status":"healthy"}');
  });
});

describe('a client that reads nothing', () => {
  it('loses the last bytes of a complete answer after a minute', async () => {
    const on = await bench();
    const { socket, text } = raw(on, bytes(STREAM));
    socket.pause();
    await arrivals(on, 1);
    const arrival = on.road.arrivals[0]!;
    arrival.sink.head(200, SSE);
    while (!arrival.paused) {
      arrival.sink.data(Buffer.alloc(1 << 20, 'x'));
      await turn();
    }
    arrival.sink.finished(REPORT);
    expect(on.gateway.activeRequests()).toBe(0);
    on.clock.advanceTo(on.clock.now() + 60_000);
    socket.resume();
    // Cut off: the closing chunk is missing.
    expect((await text).endsWith('0\r\n\r\n')).toBe(false);
  });
});

describe('an answer that is no stream', () => {
  it('turns into an error answer while none of its bytes are out', async () => {
    const on = await bench();
    on.road.onArrival = ({ sink }) => {
      sink.head(200, { 'content-type': 'application/json', 'content-length': '100' });
      sink.failed(new PointsmanError('PM_ENGINE_LOST', 'gone'), true);
    };
    const answer = await fetch(`${on.url}/v1/completions`, {
      method: 'POST',
      body: JSON.stringify(COMPLETION),
    });
    expect(answer.status).toBe(502);
    expect(await answer.json()).toMatchObject({ error: { code: 'upstream_disconnected' } });
  });
});
