import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { bench, COMPLETION, errorOf, post, REPORT, raw } from '../../tests/gateway-bench.ts';
import { LIMITS, routerConfigFixture } from '../../tests/gateway-fixtures.ts';
import { PointsmanError } from '../plugin/index.ts';

describe('limits', () => {
  it('refuses a body over the cap, whether or not its length is told', async () => {
    const on = await bench();
    const big = JSON.stringify({ ...COMPLETION, prompt: 'x'.repeat(5000) });
    const told = await errorOf(post(on, big));
    expect(told).toEqual({
      status: 413,
      error: {
        message: 'the body is larger than 4096 bytes (limits.body_bytes)',
        type: 'invalid_request_error',
        param: null,
        code: 'PM_BODY_TOO_LARGE',
      },
    });
    const chunked = raw(on, 'POST /v1/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n');
    chunked.socket.write(`${big.length.toString(16)}\r\n${big}\r\n`);
    await once(chunked.socket, 'data');
    on.clock.advanceTo(on.clock.now() + 2000);
    expect(await chunked.text).toMatch(/^HTTP\/1\.1 413 /);
    expect(on.road.arrivals).toEqual([]);
  });

  it('refuses headers over the cap', async () => {
    const on = await bench();
    const answer = await raw(on, `GET /health HTTP/1.1\r\nhost: x\r\nx-long: ${'x'.repeat(5000)}\r\n\r\n`)
      .text;
    expect(answer).toMatch(/^HTTP\/1\.1 431 /);
    expect(answer).toContain('"code":"PM_HEADERS_TOO_LARGE"');
  });

  it('takes a changed cap of headers with the next connection', async () => {
    const on = await bench();
    const long = `GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-long: ${'x'.repeat(5000)}\r\n\r\n`;
    on.config = routerConfigFixture({ limits: { ...LIMITS, headerBytes: 8192 } });
    expect(await raw(on, long).text).toMatch(/^HTTP\/1\.1 200 /);
    on.config = routerConfigFixture({ limits: LIMITS });
    expect(await raw(on, long).text).toMatch(/^HTTP\/1\.1 431 /);
  });

  it('answers what is no HTTP with a 400', async () => {
    const on = await bench();
    const answer = await raw(on, 'nonsense\r\n\r\n').text;
    expect(answer).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
    expect(answer).toContain('"message":"the request is not valid HTTP"');
  });

  it('refuses the request that would be one too many, with the configured status', async () => {
    const on = await bench({ limits: { ...LIMITS, concurrentRequests: 1 } });
    const arrival = on.road.next();
    const first = post(on, COMPLETION);
    const { sink } = await arrival;
    const second = await post(on, COMPLETION);
    expect(second.status).toBe(429);
    expect(second.headers.get('retry-after')).toBe('1');
    expect(await second.json()).toEqual({
      error: {
        message: '1 requests are under way, and limits.concurrent_requests allows 1; try again in 1 s',
        type: 'rate_limit_error',
        param: null,
        code: 'PM_OVERLOADED',
        details: { reason: 'concurrent_requests', current: 1, limit: 1, retry_after_seconds: 1 },
      },
    });
    on.config = routerConfigFixture({ limits: { ...LIMITS, concurrentRequests: 1, overloadStatus: 529 } });
    expect((await post(on, COMPLETION)).status).toBe(529);
    sink.head(200, {});
    sink.finished(REPORT);
    expect((await first).status).toBe(200);
    expect(on.gateway.activeRequests()).toBe(0);
  });

  it('says when there is room again by the pace of the requests that ended', async () => {
    const on = await bench({ limits: { ...LIMITS, concurrentRequests: 2 } });
    const begin = async () => {
      const arrival = on.road.next();
      const answer = post(on, COMPLETION);
      const { sink } = await arrival;
      return async (): Promise<void> => {
        sink.head(200, {});
        sink.finished(REPORT);
        await (await answer).text();
      };
    };
    const [first, second] = [await begin(), await begin()];
    on.clock.advanceTo(on.clock.now() + 8000);
    await first();
    const third = await begin();
    const refused = await post(on, COMPLETION);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '8']);
    on.clock.advanceTo(on.clock.now() + 3000);
    expect((await post(on, COMPLETION)).headers.get('retry-after')).toBe('5');
    await second();
    await third();
    expect(on.counts.filter((one) => one.startsWith('pointsman_overload'))).toEqual([
      'pointsman_overload_refusals_total unknown concurrent_requests',
      'pointsman_overload_refusals_total unknown concurrent_requests',
    ]);
  });

  it.each(['/v1/completions', '/v1/chat/completions'])(
    'passes a refusal by busy workers on at %s',
    async (path) => {
      const on = await bench();
      on.road.onArrival = ({ sink }) =>
        sink.failed(
          new PointsmanError('PM_SELECTION_OVERLOADED', 'all are busy', {
            details: {
              refusal: 'workers_busy',
              model: 'tiny',
              role: 'aggregated',
              busy_ranks: 4,
              retry_after: '7',
            },
          }),
          false,
        );
      const body = path.includes('chat')
        ? { model: 'tiny', messages: [{ role: 'user', content: 'hi' }] }
        : COMPLETION;
      const answer = await post(on, body, {}, path);
      expect([answer.status, answer.headers.get('retry-after')]).toEqual([429, '7']);
      expect(await answer.json()).toEqual({
        error: {
          message: 'all are busy',
          type: 'rate_limit_error',
          param: null,
          code: 'PM_SELECTION_OVERLOADED',
          details: {
            reason: 'workers_busy',
            model: 'tiny',
            role: 'aggregated',
            busy_ranks: 4,
            retry_after_seconds: 7,
          },
        },
      });
      on.config = routerConfigFixture({ limits: { ...LIMITS, overloadStatus: 529 } });
      const other = await post(on, body, {}, path);
      expect([other.status, other.headers.get('retry-after')]).toEqual([529, '7']);
    },
  );

  it('refuses a prompt over the cap', async () => {
    const on = await bench({ limits: { ...LIMITS, promptTokens: 2 } });
    expect(await errorOf(post(on, { ...COMPLETION, prompt: [1, 2, 3] }))).toMatchObject({
      status: 400,
      error: { code: 'context_length_exceeded' },
    });
  });

  it.each<[unknown, number, string]>([
    ['{"model":', 400, 'the body is not valid JSON'],
    [
      { ...COMPLETION, model: 'other' },
      404,
      'there is no model "other"; GET /v1/models lists those there are',
    ],
    [
      { ...COMPLETION, prompt: [1, -1] },
      400,
      'prompt[1] must be a token id, an integer from 0 to 4294967295; it is -1',
    ],
    [{ ...COMPLETION, prompt: '' }, 400, 'the prompt is empty; it must hold at least one token'],
  ])('refuses %j and reaches no road', async (body, status, message) => {
    const on = await bench();
    const answer = await errorOf(post(on, body));
    expect(answer.status).toBe(status);
    expect(answer.error.message).toContain(message);
    expect(on.road.arrivals).toEqual([]);
  });

  it('refuses a compressed body', async () => {
    const on = await bench();
    expect((await errorOf(post(on, COMPLETION, { 'content-encoding': 'gzip' }))).error.message).toBe(
      'a compressed body is not read; send it without content-encoding',
    );
  });
});
