// What vLLM is sent, byte by byte. What it does with it is shown at its double (tests/vllm-double.test.ts).
import { describe, expect, it } from 'vitest';
import { engineRequestFixture as request, workerFixture } from '../../../tests/gateway-fixtures.ts';
import type { KvHint, KvHintAction } from '../../plugin/index.ts';
import { VLLM_DIALECT } from './index.ts';

const FETCH: KvHintAction = {
  action_id: 'a1',
  action_type: 'kv.fetch',
  action_version: '1.0',
  payload: {
    source_control_endpoint: 'tcp://10.0.0.2:7000',
    block_hashes: BigUint64Array.of(18446744073709551615n, 2n),
  },
};
const EVICT: KvHintAction = {
  action_id: 'a2',
  action_type: 'kv.evict',
  action_version: '1.0',
  payload: { execute_at: 'request_completion' },
};
const hint = (...actions: KvHintAction[]): KvHint => ({ protocol_version: '0.1', message_id: 'm', actions });
const HASHES = '{"source_control_endpoint":"tcp://10.0.0.2:7000","block_hashes":[18446744073709551615,2]}';
const worker = workerFixture({ dialect: 'vllm' });
const legacy = workerFixture({ dialect: 'vllm', hintForm: 'legacy' });
const call = (over: Parameters<typeof request>[0]) => VLLM_DIALECT.call(request({ worker, ...over }));

describe('a call to vLLM', () => {
  it('carries the prompt of a completion as token ids, and everything else of the client as it is', () => {
    const body = { model: 'tiny', prompt: 'hello', max_tokens: 4, cache_salt: 's', logit_bias: { 7: -100 } };
    expect(call({ body })).toEqual({
      path: '/v1/completions',
      headers: { 'content-type': 'application/json', accept: 'application/json', 'x-request-id': 'req-1' },
      body: '{"prompt":[1,4294967295],"model":"tiny-sim","max_tokens":4,"cache_salt":"s","logit_bias":{"7":-100},"stream":false}',
    });
  });

  it('carries a chat as messages, as no chat endpoint takes ids', () => {
    const messages = [{ role: 'user', content: 'hi' }];
    const sent = call({ api: 'chat', body: { messages }, stream: true });
    expect(sent.path).toBe('/v1/chat/completions');
    expect(sent.body).toBe(
      '{"messages":[{"role":"user","content":"hi"}],"model":"tiny-sim","stream":true,"stream_options":{"include_usage":true}}',
    );
  });

  it('names rank, session and priority, the lower number first', () => {
    const sent = call({
      worker: workerFixture({ dialect: 'vllm', ranks: { first: 0, count: 2 } }),
      rank: 1,
      session: { sessionId: 's-1', agentHeaders: {} },
      priority: 5,
      body: { prompt: 'x', max_tokens: 1 },
    });
    expect(sent.headers['x-data-parallel-rank']).toBe('1');
    expect(sent.body).toBe(
      '{"prompt":[1,4294967295],"max_tokens":1,"model":"tiny-sim","stream":false,"session_id":"s-1","priority":-5}',
    );
    expect(call({ priority: 0 }).body).not.toContain('priority');
  });

  it('asks for the prompt token ids where the router wants to see them', () => {
    expect(call({ asksPromptTokenIds: true }).body).toContain('"return_token_ids":true');
    expect(call({}).body).not.toContain('return_token_ids');
  });

  it('carries a hint in kv_transfer_params.kv_hint, behind what a handoff says there', () => {
    const params = { do_remote_prefill: true, remote_engine_id: 'e' };
    const sent = call({ handoff: { shape: 'vllm', params }, hint: hint(FETCH) });
    expect(sent.body).toContain(
      `"kv_transfer_params":{"do_remote_prefill":true,"remote_engine_id":"e","kv_hint":{"protocol_version":"0.1","message_id":"m",` +
        `"actions":[{"action_id":"a1","action_type":"kv.fetch","action_version":"1.0","payload":${HASHES}}]}}`,
    );
  });

  it('carries the payload of the copy alone in the form of older builds, and says what it left out', () => {
    const sent = request({ worker: legacy, hint: hint(EVICT, FETCH) });
    expect(VLLM_DIALECT.call(sent).body).toContain(`"kv_transfer_params":{"router_hint":${HASHES}}`);
    expect(VLLM_DIALECT.outcomes({}, sent)).toEqual([
      {
        actionId: 'a2',
        outcome: 'rejected',
        reason: 'not_in_dialect',
        blocksAsked: null,
        blocksDone: null,
        bytes: null,
      },
    ]);
    expect(VLLM_DIALECT.call(request({ worker: legacy, hint: hint(EVICT) })).body).not.toContain(
      'kv_transfer',
    );
    expect(VLLM_DIALECT.outcomes({}, request({ worker, hint: hint(EVICT, FETCH) }))).toEqual([]);
  });

  it('leaves out the rooms of SGLang', () => {
    const handoff = { shape: 'sglang', host: 'h', port: 1, room: 2n, prefillRank: null } as const;
    expect(call({ handoff }).body).not.toContain('bootstrap');
  });
});

describe('a refusal', () => {
  const words = 'Got priority -5 but Priority scheduling is not enabled.';

  it('names the flag of the server when the router passed a priority on', () => {
    expect(VLLM_DIALECT.explain?.(words, request({ priority: 5 }))).toBe(
      'the priority is one that the router passed on: start vLLM with --scheduling-policy priority, or set router.agents.forward_priority to false',
    );
    expect(VLLM_DIALECT.explain?.(words, request())).toBeNull();
    expect(VLLM_DIALECT.explain?.('something else', request({ priority: 5 }))).toBeNull();
  });
});
