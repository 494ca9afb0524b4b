import { describe, expect, it } from 'vitest';
import { engineRequestFixture, workerFixture } from '../../../tests/gateway-fixtures.ts';
import type { SglangSettings } from '../../config/index.ts';
import { type KvHintAction, PointsmanError } from '../../plugin/index.ts';
import type { EngineRequest } from '../types.ts';
import { abortCall, closeCall, writeCall } from './engine-call.ts';
import { DEFAULT_SGLANG } from './hints.ts';
import { SGLANG_DIALECT } from './index.ts';

function worker(settings: Partial<SglangSettings> = {}, over: Parameters<typeof workerFixture>[0] = {}) {
  return workerFixture({ dialect: 'sglang', sglang: { ...DEFAULT_SGLANG, ...settings }, ...over });
}

function request(over: Partial<EngineRequest> = {}): EngineRequest {
  return engineRequestFixture({ worker: worker(), ...over });
}

const FETCH: KvHintAction = {
  action_id: 'a1',
  action_type: 'kv.fetch',
  action_version: '1.0',
  payload: {
    source_control_endpoint: 'tcp://10.0.0.2:25000',
    block_hashes: BigUint64Array.of(18446744073709551615n, 2n),
  },
};
const EVICT: KvHintAction = {
  action_id: 'a2',
  action_type: 'kv.evict',
  action_version: '1.0',
  payload: { block_hashes: BigUint64Array.of(7n), execute_at: 'request_completion' },
};
const hint = (...actions: KvHintAction[]) =>
  ({ protocol_version: '0.1', message_id: 'req-1', actions }) as const;
const FETCH_JSON =
  '{"action_id":"a1","action_type":"kv.fetch","action_version":"1.0","payload":{"source_control_endpoint":"tcp://10.0.0.2:25000",' +
  '"block_hashes":[18446744073709551615,2]}}';
const ended = { sessionId: 's-1', sessionFinal: true, agentHeaders: {} };

describe('writeCall', () => {
  it('sends a completion as the exact token ids that were hashed, under its own name', () => {
    expect(writeCall(request())).toEqual({
      path: '/v1/completions',
      headers: { 'content-type': 'application/json', accept: 'application/json', 'x-request-id': 'req-1' },
      body: '{"prompt":[1,4294967295],"model":"tiny-sim","max_tokens":4,"stream":false,"rid":"req-1"}',
    });
  });

  it('sends text where the tokens are an estimate, and chat as messages without a limit of its own', () => {
    expect(writeCall(request({ tokens: null, body: { model: 'tiny', prompt: 'hello' } })).body).toBe(
      '{"model":"tiny-sim","prompt":"hello","max_tokens":16,"stream":false,"rid":"req-1"}',
    );
    const messages = [{ role: 'user', content: 'hi' }];
    const call = writeCall(request({ api: 'chat', stream: true, body: { model: 'tiny', messages } }));
    expect([call.path, call.body]).toEqual([
      '/v1/chat/completions',
      '{"model":"tiny-sim","messages":[{"role":"user","content":"hi"}],"stream_options":{"include_usage":true},"stream":true,"rid":"req-1"}',
    ]);
  });

  it('goes to /generate with the envelope where a hint goes along, with every digit of its hashes', () => {
    const body = { model: 'tiny', prompt: 'x', max_tokens: 4, seed: 3, temperature: 0, stop: ['\n'], n: 1 };
    const call = writeCall(request({ body, hint: hint(FETCH) }));
    expect(call.path).toBe('/generate');
    expect(call.body).toBe(
      '{"input_ids":[1,4294967295],"sampling_params":{"max_new_tokens":4,"sampling_seed":3,"temperature":0,"stop":["\\n"]},' +
        `"stream":false,"rid":"req-1","kv_hints":{"protocol_version":"0.1","message_id":"req-1","actions":[${FETCH_JSON}]}}`,
    );
  });

  it('sends the bare payload of the first fetch to builds that take only that', () => {
    const legacy = worker({}, { hintForm: 'legacy' });
    const call = writeCall(request({ worker: legacy, hint: hint(EVICT, FETCH) }));
    expect(call.body).toBe(
      '{"input_ids":[1,4294967295],"sampling_params":{"max_new_tokens":4},"stream":false,"rid":"req-1",' +
        '"kv_router_hint":{"source_control_endpoint":"tcp://10.0.0.2:25000","block_hashes":[18446744073709551615,2]}}',
    );
    expect(SGLANG_DIALECT.outcomes({}, request({ worker: legacy, hint: hint(EVICT, FETCH) }))).toEqual([
      expect.objectContaining({ actionId: 'a2', outcome: 'rejected', reason: 'not_in_dialect' }),
    ]);
    expect(writeCall(request({ worker: legacy, hint: hint(EVICT) })).path).toBe('/v1/completions');
  });

  it.each([
    ['chat', { api: 'chat', body: { messages: [] } } as const],
    ['tokens that are an estimate', { tokens: null }],
    ['more than one answer', { body: { prompt: 'x', n: 2 } }],
    ['logprobs', { body: { prompt: 'x', logprobs: 0 } }],
    ['an adapter, which /generate takes under another name', { servedAs: 'tiny-sim:french' }],
    ['a member that /generate has no word for', { body: { prompt: 'x', something: true } }],
  ])('leaves a hint out for %s, and says so', (_, over) => {
    const given = request({ ...over, hint: hint(FETCH) });
    const call = writeCall(given);
    expect(call.path).not.toBe('/generate');
    expect(call.body).not.toContain('kv_hints');
    expect(SGLANG_DIALECT.outcomes({}, given)).toEqual([
      expect.objectContaining({ actionId: 'a1', outcome: 'rejected', reason: 'not_at_endpoint' }),
    ]);
  });

  it('puts the hint into every body where the OpenAI endpoints take it', () => {
    const patched = worker({ openaiHints: true });
    const completion = writeCall(request({ worker: patched, hint: hint(FETCH) }));
    expect([completion.path, completion.body.includes(`"actions":[${FETCH_JSON}]`)]).toEqual([
      '/v1/completions',
      true,
    ]);
    const chat = request({ worker: patched, hint: hint(FETCH), api: 'chat', body: { messages: [] } });
    expect(writeCall(chat).body).toContain(`"kv_hints":{"protocol_version":"0.1"`);
    expect(SGLANG_DIALECT.outcomes({}, chat)).toEqual([]);
  });

  it('pins a rank by header and member, newer or older, only where there are several', () => {
    const ranks = { ranks: { first: 0, count: 2 } };
    const pinned = (settings: Partial<SglangSettings>) =>
      writeCall(request({ worker: worker(settings, ranks), rank: 1 }));
    expect(pinned({}).headers['x-data-parallel-rank']).toBe('1');
    expect(pinned({}).body).toContain('"rid":"req-1","routed_dp_rank":1}');
    expect(pinned({ rankField: 'data_parallel_rank' }).body).toContain(
      '"rid":"req-1","data_parallel_rank":1}',
    );
    expect(writeCall(request()).headers['x-data-parallel-rank']).toBeUndefined();
  });

  it('carries a priority as it is, or turned where low values go first, and none that says nothing', () => {
    const sent = (priority: number | null, lowPriorityFirst = false) =>
      JSON.parse(writeCall(request({ priority, worker: worker({ lowPriorityFirst }) })).body).priority;
    expect([sent(5), sent(-2), sent(5, true), sent(0), sent(null)]).toEqual([
      5,
      -2,
      -5,
      undefined,
      undefined,
    ]);
  });

  it('names the session, those of tenants apart, and leaves it to who drives sessions by hand', () => {
    const session = { sessionId: 's-1', agentHeaders: {} };
    const sent = (over: Partial<EngineRequest>) =>
      JSON.parse(writeCall(request({ session, ...over })).body).session_id;
    expect(sent({})).toBe('s-1');
    expect(sent({ session: { ...session, namespace: 'ab12' } })).toBe('ab12:s-1');
    expect(sent({ body: { prompt: 'x', session_params: { id: 'own' } } })).toBeUndefined();
  });

  it('carries cache salt, extra key and the room of a handoff at both endpoints', () => {
    const handoff = {
      shape: 'sglang',
      host: 'p1',
      port: 8998,
      room: 9223372036854775807n,
      prefillRank: 2,
    } as const;
    const body = { prompt: 'x', max_tokens: 1, cache_salt: 'c', extra_key: 'e' };
    const room =
      '"bootstrap_host":"p1","bootstrap_port":8998,"bootstrap_room":9223372036854775807,"disagg_prefill_dp_rank":2';
    expect(writeCall(request({ body, handoff })).body).toBe(
      `{"prompt":[1,4294967295],"max_tokens":1,"cache_salt":"c","extra_key":"e","model":"tiny-sim","stream":false,"rid":"req-1",${room}}`,
    );
    expect(writeCall(request({ body, handoff, hint: hint(FETCH) })).body).toContain(
      `"sampling_params":{"max_new_tokens":1},"extra_key":"e","cache_salt":"c","stream":false,"rid":"req-1",${room},"kv_hints":`,
    );
  });

  it('removes what only the router may say', () => {
    const body = {
      prompt: 'x',
      rid: 'mine',
      kv_hints: {},
      kv_router_hint: {},
      kv_transfer_params: {},
      routed_dp_rank: 1,
      data_parallel_rank: 1,
      disagg_prefill_dp_rank: 1,
      bootstrap_host: 'h',
      bootstrap_port: 1,
      bootstrap_room: 1,
      max_tokens: 1,
    };
    expect(writeCall(request({ body })).body).toBe(
      '{"prompt":[1,4294967295],"max_tokens":1,"model":"tiny-sim","stream":false,"rid":"req-1"}',
    );
  });

  it('refuses no body, one that nests too deep, and a handoff of vLLM', () => {
    let deep: unknown = 1;
    for (let level = 0; level < 300; level += 1) deep = [deep];
    expect(() => writeCall(request({ body: null }))).toThrow(
      new PointsmanError('PM_ENGINE_REQUEST', 'a request without a body cannot be sent over HTTP'),
    );
    expect(() => writeCall(request({ body: { prompt: 'x', deep } }))).toThrow(
      new PointsmanError('PM_ENGINE_REQUEST', 'the request body nests deeper than 256 levels'),
    );
    expect(() => writeCall(request({ handoff: { shape: 'vllm', params: {} } }))).toThrow(
      new PointsmanError(
        'PM_ENGINE_REQUEST',
        'worker 1 has dialect sglang, which hands KV over in a room (handoff kind bootstrap), not by kv_transfer_params',
      ),
    );
  });
});

describe('closeCall', () => {
  const closing = worker({ closeSession: true });

  it('closes the session of a final request that gives up its blocks, in place of the action', () => {
    const last = request({ worker: closing, session: ended, hint: hint(FETCH, EVICT) });
    expect(closeCall(last)).toEqual({
      name: 'close_session',
      path: '/close_session',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body: '{"session_id":"s-1"}',
    });
    expect(writeCall(last).body).not.toContain('kv.evict');
    expect(writeCall(last).body).toContain('kv.fetch');
    expect(SGLANG_DIALECT.outcomes({}, last)).toEqual([
      expect.objectContaining({ actionId: 'a2', outcome: 'deferred', reason: 'close_session' }),
    ]);
  });

  it.each([
    ['a worker that did not opt in', { worker: worker() }],
    ['a session that goes on', { session: { sessionId: 's-1', agentHeaders: {} } }],
    ['a request of no session', { session: null }],
    ['no action that gives blocks up at the end', { hint: hint(FETCH) }],
    ['no hint', { hint: null }],
  ])('closes nothing for %s', (_, over) => {
    expect(closeCall(request({ worker: closing, session: ended, hint: hint(EVICT), ...over }))).toBeNull();
  });
});

it('aborts a request by the name that it was sent under', () => {
  expect(abortCall(request())).toMatchObject({
    name: 'abort',
    path: '/abort_request',
    body: '{"rid":"req-1"}',
  });
});
