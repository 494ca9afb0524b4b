// One leg of a handoff as dialect sim writes it and reads its answer.
import { describe, expect, it } from 'vitest';
import { engineRequestFixture as request } from '../../../tests/gateway-fixtures.ts';
import type { EngineReport } from '../types.ts';
import { readAnswer } from './answer-reader.ts';
import { writeCall } from './engine-call.ts';
import { streamedAnswer } from './streamed-answer.ts';

const PARAMS = { do_remote_prefill: true, remote_block_ids: [1, 2], remote_engine_id: 18446744073709551615n };
const VLLM = { shape: 'vllm', params: PARAMS } as const;

function read(leg: Parameters<typeof readAnswer>[0], answer: string) {
  const shown: string[] = [];
  const reader = readAnswer(leg, {
    relay: (bytes) => shown.push(Buffer.from(bytes).toString()),
    tokens: () => undefined,
  });
  // Every split of an answer says the same.
  const bytes = Buffer.from(answer);
  reader.data(bytes.subarray(0, 17));
  reader.data(bytes.subarray(17));
  const report: EngineReport = reader.end();
  return { report, shown: shown.join('') };
}

describe('the request of one leg', () => {
  it('carries vLLM’s parameters with every digit, beside a hint in the same member', () => {
    const hint = { protocol_version: '0.1', message_id: 'm', actions: [] } as const;
    expect(writeCall(request({ handoff: VLLM, hint })).body).toContain(
      '"kv_transfer_params":{"do_remote_prefill":true,"remote_block_ids":[1,2],"remote_engine_id":18446744073709551615,' +
        '"kv_hint":{"protocol_version":"0.1","message_id":"m","actions":[]}}',
    );
  });

  it('carries SGLang’s meeting place, and the rank that computes where it is known', () => {
    const room = {
      shape: 'sglang',
      host: 'p',
      port: 8998,
      room: 9223372036854775807n,
      prefillRank: 3,
    } as const;
    const { body } = writeCall(request({ handoff: room }));
    expect(body).toContain('"bootstrap_host":"p","bootstrap_port":8998,"bootstrap_room":9223372036854775807');
    expect(body).toContain('"disagg_prefill_dp_rank":3');
    const prefill = writeCall(request({ handoff: { ...room, prefillRank: null } })).body;
    expect(prefill).not.toContain('disagg_prefill_dp_rank');
  });
});

describe('the answer of one leg', () => {
  const whole =
    '{"id":"x","choices":[{"text":"a","finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":1,' +
    '"prompt_tokens_details":{"cached_tokens":8}},"kv_transfer_params":{"remote_block_ids":[18446744073709551615]}}';

  it('tells the router exactly what it says of its blocks, and the client nothing', () => {
    const { report, shown } = read({ stream: false, body: null, handoff: VLLM }, whole);
    expect(report).toMatchObject({
      cachedTokens: 8,
      finishReason: 'length',
      handoff: { remote_block_ids: [18446744073709551615n] },
    });
    expect(JSON.parse(shown)).toEqual({
      id: 'x',
      choices: [{ text: 'a', finish_reason: 'length' }],
      usage: { prompt_tokens: 9, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 8 } },
    });
  });

  it('has the cached tokens of the engine that computed the prompt, once they are known', () => {
    for (const [known, expected] of [
      [3, 3],
      [null, 8],
    ] as const) {
      const leg = { stream: false, body: null, handoff: VLLM, prefilledCachedTokens: () => known };
      const { report, shown } = read(leg, whole);
      expect(report.cachedTokens).toBe(expected);
      expect(JSON.parse(shown).usage.prompt_tokens_details.cached_tokens).toBe(expected);
    }
  });

  it('is changed as a stream only where it must be', () => {
    const first = 'data: {"choices":[{"text":"a","finish_reason":null}]}\n\n';
    const usage =
      'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":8}},"kv_transfer_params":{}}\n\n';
    const leg = {
      stream: true,
      body: { stream_options: { include_usage: true } },
      handoff: VLLM,
      prefilledCachedTokens: () => 3,
    };
    const { report, shown } = read(leg, `${first}${usage}data: [DONE]\n\n`);
    expect(report.cachedTokens).toBe(3);
    expect(shown).toBe(
      `${first}data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":3}}}\n\ndata: [DONE]\n\n`,
    );
  });

  it('of a request that is no leg passes as it is', () => {
    expect(read({ stream: false, body: null }, whole).shown).toBe(whole);
  });
});

describe('a whole answer as a stream', () => {
  const answer = (choice: object) =>
    Buffer.from(
      JSON.stringify({
        id: 'x',
        object: 'o',
        choices: [choice],
        usage: { prompt_tokens: 1, completion_tokens: 1 },
      }),
    );
  const events = (bytes: Uint8Array | null) =>
    Buffer.from(bytes ?? [])
      .toString()
      .split('\n\n')
      .filter(Boolean);

  it('is one chunk of its API, usage where it was asked for, and the end', () => {
    const chat = { index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' };
    const body = { stream_options: { include_usage: true } };
    expect(events(streamedAnswer(answer(chat), { api: 'chat', body }))).toEqual([
      'data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"finish_reason":"stop","delta":{"role":"assistant","content":"hi"}}]}',
      'data: {"id":"x","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}',
      'data: [DONE]',
    ]);
    const text = { index: 0, text: 'hi', finish_reason: 'stop' };
    expect(events(streamedAnswer(answer(text), { api: 'completions', body: {} }))).toEqual([
      'data: {"id":"x","object":"text_completion","choices":[{"index":0,"text":"hi","finish_reason":"stop"}]}',
      'data: [DONE]',
    ]);
  });

  it('is null where nothing can be read', () => {
    for (const bytes of ['', '[]', '{"choices":1}', '{"choices":[1]}']) {
      expect(streamedAnswer(Buffer.from(bytes), { api: 'chat', body: null })).toBeNull();
    }
  });
});
