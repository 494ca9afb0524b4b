import { request } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { loadTextTokenizer, TINY_TOKENIZER } from '../../tokens/index.ts';
import { listen, metric, post, sse, start, stopAll, storedHashes } from './wire.fixtures.ts';

afterEach(stopAll);
const tokenizer = loadTextTokenizer(TINY_TOKENIZER.tokenizer, TINY_TOKENIZER.template);
const PROMPT = 'the old station stands at the edge of a small town where three lines meet';

async function one(settings: Parameters<typeof start>[0] = {}, more: Parameters<typeof start>[1] = {}) {
  const { engines } = await start(settings, more);
  return engines[0]!;
}

interface Answer {
  id: string;
  object: string;
  choices: { text?: string; message?: { role: string; content: string }; finish_reason: string }[];
  usage: {
    prompt_tokens: number;
    completion_tokens: number;
    total_tokens: number;
    prompt_tokens_details: { cached_tokens: number };
  };
}
const answerOf = async (response: Response): Promise<Answer> => {
  expect(response.status).toBe(200);
  return (await response.json()) as Answer;
};

describe('completions', () => {
  it('answers a text prompt with 16 readable words and its usage, and knows it the second time', async () => {
    const { url } = await one();
    const tokens = tokenizer.encode(PROMPT).length;
    const first = await post(`${url}/v1/completions`, { prompt: PROMPT }, { 'x-request-id': 'r1' });
    expect(first.headers.get('x-request-id')).toBe('r1');
    const answer = await answerOf(first);
    expect(answer).toMatchObject({ id: 'cmpl-r1', object: 'text_completion', model: 'tiny-sim' });
    expect(answer.choices[0]?.text).toMatch(/^( [a-z]+){16}$/);
    expect(answer.choices[0]?.finish_reason).toBe('length');
    expect(answer.usage).toEqual({
      prompt_tokens: tokens,
      completion_tokens: 16,
      total_tokens: tokens + 16,
      prompt_tokens_details: { cached_tokens: 0 },
    });
    const ids = Array.from(tokenizer.encode(PROMPT));
    const again = await answerOf(await post(`${url}/v1/completions`, { prompt: ids, max_tokens: 3 }));
    expect(again.usage.prompt_tokens_details.cached_tokens).toBe(Math.floor((tokens - 1) / 4) * 4);
    expect(again.choices[0]?.text).toMatch(/^( [a-z]+){3}$/);
  });

  it('gives the same answer for the same request id', async () => {
    const { url } = await one();
    const ask = async (id: string) =>
      (await answerOf(await post(`${url}/v1/completions`, { prompt: [1] }, { 'x-request-id': id }))).choices;
    expect(await ask('a')).toEqual(await ask('a'));
    expect(await ask('a')).not.toEqual(await ask('b'));
  });

  it('streams one event per token, then usage if asked for, then [DONE]', async () => {
    const { url } = await one();
    const response = await post(`${url}/v1/completions`, {
      prompt: PROMPT,
      max_tokens: 3,
      stream: true,
      stream_options: { include_usage: true },
      ignore_eos: true,
    });
    expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
    const events = await sse(response);
    expect(events).toHaveLength(5);
    expect(events.slice(0, 3)).toMatchObject(
      [null, null, 'length'].map((finish_reason) => ({
        object: 'text_completion',
        choices: [{ index: 0, text: expect.stringMatching(/^ [a-z]+$/), finish_reason }],
      })),
    );
    expect(events[3]).toMatchObject({
      choices: [],
      usage: { completion_tokens: 3, prompt_tokens_details: { cached_tokens: 0 } },
    });
    expect(events[4]).toBe('[DONE]');
    const plain = await sse(
      await post(`${url}/v1/completions`, { prompt: PROMPT, max_tokens: 1, stream: true }),
    );
    expect(plain.map((event) => typeof event === 'object' && event !== null && 'usage' in event)).toEqual([
      false,
      false,
    ]);
  });
});

describe('chat', () => {
  it('answers whole and streamed', async () => {
    const { url } = await one();
    const messages = [{ role: 'user', content: [{ type: 'text', text: PROMPT }] }];
    const whole = await answerOf(
      await post(`${url}/v1/chat/completions`, { messages, max_completion_tokens: 2, max_tokens: 9 }),
    );
    expect(whole.object).toBe('chat.completion');
    expect(whole.choices[0]).toMatchObject({
      message: { role: 'assistant', content: expect.stringMatching(/^( [a-z]+){2}$/) },
      finish_reason: 'length',
    });
    const events = await sse(
      await post(`${url}/v1/chat/completions`, { messages, max_tokens: 2, stream: true }),
    );
    expect(events).toMatchObject([
      { object: 'chat.completion.chunk', choices: [{ delta: { role: 'assistant', content: '' } }] },
      { choices: [{ delta: { content: expect.stringMatching(/^ [a-z]+$/) }, finish_reason: null }] },
      { choices: [{ delta: { content: expect.stringMatching(/^ [a-z]+$/) }, finish_reason: 'length' }] },
      '[DONE]',
    ]);
  });

  it('finds its own answer cached when the next turn sends it back', async () => {
    const { url } = await one({ blockSize: 1 });
    const messages: object[] = [{ role: 'user', content: PROMPT }];
    const first = await answerOf(await post(`${url}/v1/chat/completions`, { messages, max_tokens: 20 }));
    messages.push(first.choices[0]!.message!, { role: 'user', content: 'and then' });
    const second = await answerOf(await post(`${url}/v1/chat/completions`, { messages, max_tokens: 1 }));
    // All but the last generated token, whose KV was never computed.
    expect(second.usage.prompt_tokens_details.cached_tokens).toBe(first.usage.prompt_tokens + 19);
  });
});

describe('the other paths', () => {
  it('lists its model, its health and its load', async () => {
    const { url } = await one();
    expect(await (await fetch(`${url}/v1/models`)).json()).toMatchObject({
      object: 'list',
      data: [{ id: 'tiny-sim', object: 'model', max_model_len: 131072 }],
    });
    expect((await fetch(`${url}/health`)).status).toBe(200);
    expect(await (await fetch(`${url}/load?x=1`)).json()).toEqual({ server_load: 0 });
  });

  it('tokenizes both shapes to the ids it computes on', async () => {
    const { url } = await one();
    const text = (await (await post(`${url}/tokenize`, { prompt: PROMPT })).json()) as { tokens: number[] };
    expect(text).toMatchObject({ count: text.tokens.length, max_model_len: 131072, token_strs: null });
    expect(text.tokens).toEqual(Array.from(tokenizer.encode(PROMPT)));
    const messages = [{ role: 'user', content: 'hello' }];
    const chat = (await (await post(`${url}/tokenize`, { messages })).json()) as { count: number };
    const usage = (await answerOf(await post(`${url}/v1/chat/completions`, { messages }))).usage;
    expect(chat.count).toBe(usage.prompt_tokens);
  });

  it('reports under vLLM’s metric names', async () => {
    const { url } = await one({ kvBlocks: 100 });
    const model = '{model_name="tiny-sim"}';
    expect(await metric(url, 'vllm:cache_config_info{block_size="4",num_gpu_blocks="100"}')).toBe(1);
    for (const name of ['num_requests_running', 'num_requests_waiting', 'kv_cache_usage_perc']) {
      expect(await metric(url, `vllm:${name}${model}`)).toBe(0);
    }
    expect(await metric(url, `vllm:prefix_cache_queries_total${model}`)).toBe(0);
    await post(`${url}/v1/completions`, { prompt: [1, 2, 3, 4, 5] });
    await post(`${url}/v1/completions`, { prompt: [1, 2, 3, 4, 5] });
    expect(await metric(url, `vllm:prefix_cache_queries_total${model}`)).toBe(10);
    expect(await metric(url, `vllm:prefix_cache_hits_total${model}`)).toBe(4);
    expect(await metric(url, `vllm:generation_tokens_total${model}`)).toBe(32);
  });

  it('advertises what it can do with hints', async () => {
    const engine = await one({ kvBlocks: 512, hashSeed: 7 });
    const answer = await (await fetch(`${engine.url}/kv_hints/capabilities`)).json();
    expect(answer).toEqual({
      protocol_versions: ['0.1'],
      epoch: engine.epoch,
      model: 'tiny-sim',
      worker_type: 'aggregated',
      block_size: 4,
      total_kv_blocks: 512,
      max_num_batched_tokens: 8192,
      hash_scheme: 'sim-xxh3/seed=7',
      reports_outcomes: true,
      ranks: {
        '0': {
          router_hint: true,
          actions: ['kv.fetch@1.0', 'kv.retain@1.0', 'kv.retain@1.1', 'kv.evict@1.0'],
          source_control_endpoint: engine.control,
          kv_events: engine.kv_events,
          kv_events_replay: engine.kv_events_replay,
        },
      },
    });
    const silent = await one({ actions: null });
    const ranks = ((await (await fetch(`${silent.url}/kv_hints/capabilities`)).json()) as { ranks: object })
      .ranks;
    expect(ranks).toEqual({ '0': expect.not.objectContaining({ actions: expect.anything() }) });
  });
});

describe('hints', () => {
  it('reports outcomes in a header, and generates whatever the hint says', async () => {
    const engine = await one();
    const heard = await listen(engine.kv_events);
    // Subscriptions take a moment to arrive: send until events are heard.
    let nth = 0;
    while (heard.events.length === 0) {
      nth += 1;
      await post(`${engine.url}/v1/completions`, { prompt: [nth, 2, 3, 4, 5], max_tokens: 1 });
    }
    const [hash] = storedHashes(heard.events);
    const hint = (action: string): string =>
      `{"protocol_version":"0.1","message_id":"m1","actions":[{"action_id":"a1","action_type":"${action}","action_version":"1.0","payload":{"block_hashes":[${hash}],"priority":50,"ttl_ms":1000}}]}`;
    const send = async (text: string): Promise<unknown> => {
      const body = `{"prompt":[1,2,3,4,5],"max_tokens":1,"kv_transfer_params":{"kv_hint":${text}}}`;
      const response = await post(`${engine.url}/v1/completions`, body);
      await answerOf(response);
      return JSON.parse(response.headers.get('x-kv-hint-outcomes') ?? 'null');
    };
    expect(await send(hint('kv.retain'))).toMatchObject({
      message_id: 'm1',
      outcomes: [{ action_id: 'a1', outcome: 'accepted', blocks_asked: 1, blocks_done: 1 }],
    });
    expect(await send(hint('kv.teleport'))).toEqual({
      message_id: 'm1',
      outcomes: [{ action_id: 'a1', outcome: 'rejected', reason: 'unsupported' }],
    });
    expect(await send('"nonsense"')).toMatchObject({
      message_id: null,
      outcomes: [{ outcome: 'rejected', reason: 'malformed' }],
    });
    expect(await send('null')).toBe(null);
    expect(await metric(engine.url, 'pointsman_sim_hint_outcomes_total{outcome="rejected"}')).toBe(2);
  });

  it('publishes stores with the session, in sequence', async () => {
    const engine = await one();
    const heard = await listen(engine.kv_events);
    let nth = 0;
    while (heard.events.length === 0) {
      nth += 1;
      await post(`${engine.url}/v1/completions`, { prompt: [nth, 2, 3, 4], session_id: 's1', max_tokens: 1 });
    }
    expect(heard.events[0]).toMatchObject({
      kind: 'stored',
      parent: null,
      blockSize: 4,
      tier: 'device',
      sessionId: 's1',
    });
    await post(`${engine.url}/v1/completions`, { prompt: [nth, 2, 3, 4, 5, 6, 7, 8, 9], max_tokens: 1 });
    await heard.until((events) => events.some((it) => it.kind === 'stored' && it.parent !== null));
    // One each for the last two requests at least, and for those before whose message came while the next was sent.
    const [first = -1] = heard.sequences;
    expect(heard.sequences.length).toBeGreaterThan(1);
    expect(heard.sequences).toEqual(heard.sequences.map((_, at) => first + at));
  });
});

describe('bad requests', () => {
  it('are refused with a sentence in OpenAI’s shape', async () => {
    const { url } = await one({ kvBlocks: 64 });
    const refused = async (body: unknown, path = '/v1/completions'): Promise<unknown> => {
      const response = await post(url + path, body);
      const { error } = (await response.json()) as { error: { message: string; code: number; type: string } };
      expect(error.code).toBe(response.status);
      return `${response.status} ${error.type} ${error.message}`;
    };
    expect(await refused('{')).toBe('400 BadRequestError the body is not valid JSON');
    // Told before it is parsed, which would take seconds.
    expect(await refused('['.repeat(1024 * 1024))).toBe(
      '400 BadRequestError the body nests deeper than 128 levels',
    );
    expect(await refused([])).toBe('400 BadRequestError the body must be a JSON object');
    expect(await refused({ prompt: '' })).toBe('400 BadRequestError the prompt must hold at least one token');
    expect(await refused({ prompt: [1, -1] })).toBe(
      '400 BadRequestError prompt[1] must be a token id, an integer from 0 to 4294967295',
    );
    expect(await refused({ prompt: { a: 1 } })).toBe(
      '400 BadRequestError prompt must be a string or a list of token ids',
    );
    expect(await refused({ prompt: 'x', max_tokens: 0 })).toBe(
      '400 BadRequestError max_tokens must be an integer of at least 1',
    );
    expect(await refused({ prompt: 'x', stream: 'yes' })).toBe(
      '400 BadRequestError stream must be true or false',
    );
    expect(await refused({ prompt: 'x', n: 2 })).toBe('400 BadRequestError n must be 1');
    expect(await refused({ prompt: 'x', session_id: 5 })).toBe(
      '400 BadRequestError session_id must be a string of at most 1024 characters',
    );
    expect(await refused({ prompt: 'x', model: 'gpt' })).toBe(
      '404 NotFoundError the model "gpt" does not exist; this engine serves "tiny-sim"',
    );
    expect(await refused({ prompt: [1], max_tokens: 131072 })).toBe(
      '400 BadRequestError the maximum context length is 131072 tokens, but 1 prompt tokens and 131072 output tokens were asked for',
    );
    expect(await refused({ prompt: [1], max_tokens: 1000 })).toBe(
      '400 BadRequestError the request needs more KV blocks than this engine has: 1 prompt and 1000 output tokens',
    );
    expect(await refused({ messages: [] }, '/v1/chat/completions')).toBe(
      '400 BadRequestError messages must be a list of at least one message',
    );
    expect(await refused({}, '/tokenize')).toBe(
      '400 BadRequestError prompt must be a string, or messages a list',
    );
    expect(await refused({}, '/v2/x')).toBe('404 NotFoundError there is no /v2/x here');
    expect(await refused({}, '/health')).toBe('405 MethodNotAllowedError /health takes GET, not POST');
    expect(await metric(url, 'vllm:num_requests_running{model_name="tiny-sim"}')).toBe(0);
  });

  it('are refused beyond the body cap, announced or not', async () => {
    const { url } = await one({}, { maxBodyBytes: 1000 });
    const announced = await post(`${url}/v1/completions`, { prompt: 'x'.repeat(2000) });
    expect(announced.status).toBe(413);
    const { port } = new URL(url);
    const status = await new Promise((resolve, reject) => {
      const chunked = request({ port, host: '127.0.0.1', method: 'POST', path: '/v1/completions' });
      chunked.on('response', (response) => resolve(response.statusCode)).on('error', reject);
      chunked.write(' '.repeat(600));
      chunked.write(' '.repeat(600));
    });
    expect(status).toBe(413);
  });
});
