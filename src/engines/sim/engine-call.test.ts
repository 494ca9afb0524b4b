import { describe, expect, it } from 'vitest';
import { engineRequestFixture as request, workerFixture } from '../../../tests/gateway-fixtures.ts';
import { PointsmanError } from '../../plugin/index.ts';
import { writeCall } from './engine-call.ts';

describe('writeCall', () => {
  it('sends a completion as the exact token ids that were hashed', () => {
    const call = writeCall(request());
    expect(call).toEqual({
      path: '/v1/completions',
      headers: { 'content-type': 'application/json', accept: 'application/json', 'x-request-id': 'req-1' },
      body: '{"prompt":[1,4294967295],"model":"tiny-sim","max_tokens":4,"stream":false}',
    });
  });

  it('sends the text when the tokens are an estimate, and always a token limit', () => {
    const call = writeCall(request({ tokens: null, body: { model: 'tiny', prompt: 'hello' } }));
    expect(JSON.parse(call.body)).toEqual({
      model: 'tiny-sim',
      prompt: 'hello',
      stream: false,
      max_tokens: 16,
    });
  });

  it('sends chat as messages and adds no token limit of its own', () => {
    const messages = [{ role: 'user', content: 'hi' }];
    const call = writeCall(request({ api: 'chat', body: { model: 'tiny', messages } }));
    expect(call.path).toBe('/v1/chat/completions');
    expect(JSON.parse(call.body)).toEqual({ model: 'tiny-sim', messages, stream: false });
  });

  it('asks every stream for usage and keeps what else the client asked', () => {
    const options = (asked: unknown) =>
      JSON.parse(writeCall(request({ stream: true, body: { prompt: 'x', stream_options: asked } })).body)
        .stream_options;
    expect(options(undefined)).toEqual({ include_usage: true });
    expect(options({ include_usage: false, continuous_usage_stats: true, other: 1 })).toEqual({
      include_usage: true,
      other: 1,
    });
    expect(options({ include_usage: true, continuous_usage_stats: true })).toEqual({
      include_usage: true,
      continuous_usage_stats: true,
    });
  });

  it('carries a priority the way round that vLLM takes it, over one in the body, and none that says nothing', () => {
    const sent = (priority: number | null, body: object = {}) =>
      JSON.parse(writeCall(request({ priority, body: { prompt: 'x', ...body } })).body).priority;
    expect([sent(5), sent(-2147483648), sent(5, { priority: 9 })]).toEqual([-5, 2147483648, -5]);
    expect([sent(0), sent(null), sent(null, { priority: 9 })]).toEqual([undefined, undefined, 9]);
  });

  it('carries session id and hint envelope with every digit of its hashes', () => {
    const call = writeCall(
      request({
        session: { sessionId: 's-1', agentHeaders: {} },
        hint: {
          protocol_version: '0.1',
          message_id: 'req-1',
          actions: [
            {
              action_id: 'a1',
              action_type: 'kv.fetch',
              action_version: '1.0',
              payload: { block_hashes: BigUint64Array.of(18446744073709551615n, 2n) },
            },
          ],
        },
      }),
    );
    expect(call.body).toContain('"session_id":"s-1"');
    expect(call.body).toContain(
      '"kv_transfer_params":{"kv_hint":{"protocol_version":"0.1","message_id":"req-1","actions":[{"action_id":"a1",' +
        '"action_type":"kv.fetch","action_version":"1.0","payload":{"block_hashes":[18446744073709551615,2]}}]}}',
    );
  });

  it('names the rank only to engines that have several or start above 0', () => {
    expect(writeCall(request()).headers['x-data-parallel-rank']).toBeUndefined();
    expect(
      writeCall(request({ worker: workerFixture({ ranks: { first: 0, count: 2 } }), rank: 1 })).headers[
        'x-data-parallel-rank'
      ],
    ).toBe('1');
    expect(
      writeCall(request({ worker: workerFixture({ ranks: { first: 3, count: 1 } }), rank: 3 })).headers[
        'x-data-parallel-rank'
      ],
    ).toBe('3');
  });

  it('leaves the naming of the request to the header', () => {
    const call = writeCall(request({ body: { prompt: 'x', request_id: 'mine' } }));
    expect(call.body).not.toContain('mine');
    expect(call.headers['x-request-id']).toBe('req-1');
  });

  it('refuses a body that nests too deep, and one that is missing', () => {
    let deep: unknown = 1;
    for (let level = 0; level < 300; level += 1) deep = [deep];
    expect(() => writeCall(request({ body: { prompt: 'x', deep } }))).toThrow(
      new PointsmanError('PM_ENGINE_REQUEST', 'the request body nests deeper than 256 levels'),
    );
    expect(() => writeCall(request({ body: null }))).toThrow(
      new PointsmanError('PM_ENGINE_REQUEST', 'a request without a body cannot be sent over HTTP'),
    );
  });
});
