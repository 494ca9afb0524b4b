// What llama.cpp's server is sent, byte by byte, and what is read of its answers.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { engineRequestFixture as request, workerFixture } from '../../../tests/gateway-fixtures.ts';
import type { KvHint } from '../../plugin/index.ts';
import { readReportedLoad } from '../reported-load.ts';
import { readChunk } from '../sim/chunk.ts';
import { describeLlamaServer, readModelNames, readProps } from './describe.ts';
import { LLAMACPP_DIALECT } from './index.ts';

const worker = workerFixture({ dialect: 'llamacpp', ranks: { first: 0, count: 4 } });
const call = (over: Parameters<typeof request>[0]) =>
  LLAMACPP_DIALECT.call(request({ worker, rank: 2, ...over }));
const HINT: KvHint = {
  protocol_version: '0.1',
  message_id: 'm',
  actions: [
    { action_id: 'a1', action_type: 'kv.evict', action_version: '1.0', payload: { block_hashes: [] } },
  ],
};

describe('a call to llama.cpp', () => {
  it('carries a completion as token ids to a slot', () => {
    expect(call({})).toEqual({
      path: '/v1/completions',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body: '{"prompt":[1,4294967295],"model":"tiny-sim","max_tokens":4,"stream":false,"cache_prompt":true,"id_slot":2}',
    });
  });

  it('carries a chat as messages', () => {
    const messages = [{ role: 'user', content: 'hi' }];
    const sent = call({ api: 'chat', body: { messages }, stream: true });
    expect(sent.path).toBe('/v1/chat/completions');
    expect(sent.body).toBe(
      '{"messages":[{"role":"user","content":"hi"}],"model":"tiny-sim","stream":true,"stream_options":{"include_usage":true},"cache_prompt":true,"id_slot":2}',
    );
  });

  it('has no words for hints, sessions and priorities, and says so of hints', () => {
    const asked = request({
      ...{ worker, rank: 2, hint: HINT, priority: 7 },
      session: { sessionId: 's-1', agentHeaders: {} },
      body: { prompt: 'x', max_tokens: 1 },
    });
    expect(LLAMACPP_DIALECT.call(asked).body).toBe(
      '{"prompt":[1,4294967295],"max_tokens":1,"model":"tiny-sim","stream":false,"cache_prompt":true,"id_slot":2}',
    );
    expect(LLAMACPP_DIALECT.outcomes({}, asked)).toMatchObject([
      { actionId: 'a1', outcome: 'rejected', reason: 'not_in_dialect' },
    ]);
    expect(LLAMACPP_DIALECT.outcomes({}, request())).toEqual([]);
  });

  it("takes a client's own slot out, and leaves the choice to a server of one rank", () => {
    const body = {
      prompt: 'x',
      max_tokens: 1,
      id_slot: 3,
      cache_prompt: false,
      n_cache_reuse: 256,
      kv_hints: {},
      // These would go before max_tokens and n.
      n_predict: -1,
      n_cmpl: 8,
    };
    const one = workerFixture({ dialect: 'llamacpp' });
    expect(LLAMACPP_DIALECT.call(request({ worker: one, body })).body).toBe(
      '{"prompt":[1,4294967295],"max_tokens":1,"model":"tiny-sim","stream":false,"cache_prompt":true}',
    );
  });
});

const PROPS = JSON.stringify({
  default_generation_settings: { id: 0, n_ctx: 4096 },
  total_slots: 4,
  model_path: 'm.gguf',
  chat_template: 'T',
  build_info: 'b6000-abc',
});
const MODELS = JSON.stringify({ data: [{ id: 'm', owned_by: 'llamacpp' }, { id: 7 }] });

describe('what a server says of itself', () => {
  it('is put together from two places', async () => {
    const answers: Readonly<Record<string, string>> = { '/props': PROPS, '/v1/models': MODELS };
    const described = await describeLlamaServer(({ path }) =>
      Promise.resolve({ status: answers[path] === undefined ? 404 : 200, text: answers[path] ?? '' }),
    );
    expect(described).toEqual({
      ...{ version: 'b6000-abc', models: ['m'], ranks: 4, maxModelLength: 4096, prefixCaching: true },
      ...{
        blockSize: null,
        totalKvBlocks: null,
        maxNumBatchedTokens: null,
        kvEvents: null,
        chatTemplate: 'T',
      },
    });
    expect(await describeLlamaServer(() => Promise.resolve({ status: 404, text: '' }))).toBeNull();
  });

  it('is read without throwing, whatever comes', () => {
    const broken = fc.oneof(
      fc.string(),
      fc.json(),
      fc.nat(PROPS.length).map((at) => PROPS.slice(0, at)),
      fc
        .tuple(fc.nat(PROPS.length), fc.string())
        .map(([at, text]) => PROPS.slice(0, at) + text + PROPS.slice(at)),
    );
    fc.assert(
      fc.property(broken, (text) => {
        const props = readProps(text);
        if (props !== null) expect(props.ranks).toBeGreaterThan(0);
        readModelNames(text);
      }),
    );
  });

  it('has its load on its page of metrics', () => {
    expect(readReportedLoad('llamacpp:requests_processing 3\nllamacpp:requests_deferred 2\n')).toEqual({
      ...{ running: 3, waiting: 2, kvUsage: null },
    });
  });
});

describe('cached tokens', () => {
  const timings = { cache_n: 32, prompt_n: 8, predicted_n: 3 };
  it('are taken from the usage, else from the timings', () => {
    const usage = { prompt_tokens: 40, completion_tokens: 3 };
    const read = (chunk: object) => readChunk(JSON.stringify(chunk))?.usage;
    const all = { promptTokens: 40, cachedTokens: 32, outputTokens: 3 };
    expect(read({ choices: [], usage, timings })).toEqual(all);
    expect(read({ choices: [{}], timings })).toEqual(all);
    const details = { ...usage, prompt_tokens_details: { cached_tokens: 16 } };
    expect(read({ choices: [], usage: details, timings })).toEqual({ ...all, cachedTokens: 16 });
    expect(read({ choices: [{}], timings: { cache_n: -1, prompt_n: 'x' } })).toBeNull();
  });
});
