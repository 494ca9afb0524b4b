import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { bench, COMPLETION, errorOf, post, REPORT, SSE, STREAM } from '../../tests/gateway-bench.ts';
import { routerConfigFixture } from '../../tests/gateway-fixtures.ts';
import { NO_LOG } from '../plugin/index.ts';
import { createGateway } from './gateway.ts';

describe('API keys', () => {
  it('are asked for on /v1 and not on health, and limit the models', async () => {
    const sha256 = createHash('sha256').update('key-a').digest('hex');
    const other = { ...routerConfigFixture().models.get('tiny')!, name: 'other', aliases: [] };
    const on = await bench({
      auth: { apiKeys: [{ name: 'a', sha256, models: ['tiny'], tenant: null }] },
      models: new Map([...routerConfigFixture().models, ['other', other]]),
    });
    const refused = await post(on, COMPLETION);
    expect(refused.status).toBe(401);
    expect(refused.headers.get('www-authenticate')).toBe('Bearer');
    expect(await refused.json()).toMatchObject({
      error: { type: 'authentication_error', code: 'invalid_api_key' },
    });
    expect((await fetch(`${on.url}/v1/models`)).status).toBe(401);
    expect((await fetch(`${on.url}/health`)).status).toBe(200);
    const key = { authorization: 'Bearer key-a' };
    const list = (await (await fetch(`${on.url}/v1/models`, { headers: key })).json()) as {
      data: { id: string }[];
    };
    expect(list.data.map((model) => model.id)).toEqual(['default', 'tiny']);
    expect((await fetch(`${on.url}/v1/models/other`, { headers: key })).status).toBe(404);
    expect((await errorOf(post(on, { ...COMPLETION, model: 'other' }, key))).status).toBe(404);
    on.road.onArrival = ({ sink }) => {
      sink.head(200, {});
      sink.finished(REPORT);
    };
    expect((await post(on, COMPLETION, key)).status).toBe(200);
  });
});

describe('the other paths', () => {
  it('lists models and their aliases', async () => {
    const on = await bench();
    const entry = (id: string) => ({ id, object: 'model', created: 1000, owned_by: 'pointsman' });
    expect(await (await fetch(`${on.url}/v1/models`)).json()).toEqual({
      object: 'list',
      data: [entry('default'), entry('tiny')],
    });
    expect(await (await fetch(`${on.url}/v1/models/tiny`)).json()).toEqual(entry('tiny'));
  });

  it('says in words why it is not ready', async () => {
    const on = await bench();
    expect((await fetch(`${on.url}/ready`)).status).toBe(200);
    on.readiness = { reasons: ['no worker is ready'], warnings: ['no KV events from worker 1'] };
    const answer = await fetch(`${on.url}/ready`);
    expect(answer.status).toBe(503);
    expect(await answer.json()).toEqual({
      status: 'not_ready',
      reasons: ['no worker is ready'],
      warnings: ['no KV events from worker 1'],
    });
  });

  it.each(['/metrics', '/decisions', '/workers', '/', '/v1', '/v1/chat', '/%ff'])(
    'has no %s',
    async (path) => {
      const on = await bench();
      expect(await errorOf(fetch(on.url + path))).toMatchObject({
        status: 404,
        error: { code: 'PM_REQUEST_NOT_FOUND' },
      });
    },
  );

  it('names the method where only that is wrong', async () => {
    const on = await bench();
    expect((await errorOf(fetch(`${on.url}/v1/completions`))).error.message).toBe(
      'this path answers POST only',
    );
    const health = await fetch(`${on.url}/health`, { method: 'POST' });
    expect([health.status, health.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
    const undecodable = await fetch(`${on.url}/v1/models/%ff`, { method: 'PUT' });
    expect(undecodable.status).toBe(404);
  });

  it('answers HEAD as GET without the body', async () => {
    const on = await bench();
    const answer = await fetch(`${on.url}/health`, { method: 'HEAD' });
    expect([answer.status, answer.headers.get('content-length'), await answer.text()]).toEqual([
      200,
      '21',
      '',
    ]);
  });

  it('refuses a port in use with a sentence', async () => {
    const on = await bench();
    const second = createGateway({
      road: on.road,
      config: () => on.config,
      tokens: () => undefined,
      readiness: () => on.readiness,
      metrics: { count() {}, observe() {}, gauge() {} },
      clock: on.clock,
      log: NO_LOG,
      newRequestId: () => 'x',
    });
    await expect(second.listen('127.0.0.1', on.port)).rejects.toThrow(
      `cannot listen on 127.0.0.1:${on.port}: another process uses that port`,
    );
  });
});

describe('a graceful stop', () => {
  it('refuses new requests, lets running ones finish, and closes idle connections', async () => {
    const on = await bench();
    const arrival = on.road.next();
    const running = post(on, STREAM);
    const { sink } = await arrival;
    sink.head(200, SSE);
    const answer = await running;
    const stopped = on.gateway.stop(1000);
    expect((await fetch(`${on.url}/ready`)).status).toBe(503);
    expect((await fetch(`${on.url}/live`)).status).toBe(503);
    expect(await errorOf(post(on, COMPLETION))).toMatchObject({
      status: 503,
      error: { code: 'PM_SHUTTING_DOWN' },
    });
    sink.data(Buffer.from('data: 1\n\n'));
    sink.finished(REPORT);
    expect(await answer.text()).toBe('data: 1\n\n');
    on.clock.advanceTo(on.clock.now() + 100);
    await stopped;
    await expect(fetch(`${on.url}/health`)).rejects.toThrow();
  });

  it('ends what is still running after the drain time with an error, streams and whole answers alike', async () => {
    const on = await bench();
    const arrival = on.road.next();
    const streaming = post(on, STREAM);
    const first = await arrival;
    first.sink.head(200, SSE);
    const answer = await streaming;
    const second = on.road.next();
    const waiting = post(on, COMPLETION);
    const unanswered = await second;
    const stopped = on.gateway.stop(1000);
    on.clock.advanceTo(on.clock.now() + 999);
    expect(on.gateway.activeRequests()).toBe(2);
    on.clock.advanceTo(on.clock.now() + 1);
    expect(first.aborts + unanswered.aborts).toBe(2);
    expect(await answer.text()).toContain('"code":"shutting_down"');
    expect(await errorOf(waiting)).toMatchObject({ status: 503, error: { code: 'PM_SHUTTING_DOWN' } });
    on.clock.advanceTo(on.clock.now() + 2000);
    await stopped;
  });
});
