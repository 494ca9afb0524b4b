import { afterEach, describe, expect, it } from 'vitest';
import { ask, EVENTS, stopDoubles, vllm } from '../../../tests/support/vllm-doubles.ts';
import { decodeEventBatch, type KvEvent, subscribeZmq, zmqReplay } from '../../events/index.ts';
import { realClock } from '../wire/wire.fixtures.ts';
import type { DoubleFaults } from './double-faults.ts';

afterEach(stopDoubles);

const IDS = Array.from({ length: 12 }, (_, at) => 20 + at);
const error = (message: string, param: string | null = null, code = 400, type = 'BadRequestError') => ({
  error: { message, type, param, code },
});

describe('a stock server', () => {
  it('says what it is where vLLM says it, and knows nothing of hints', async () => {
    const { url } = await vllm(['org/model', '--served-model-name', 'm', 'n', '--max-model-len', '4096']);
    expect(await (await fetch(`${url}/version`)).json()).toEqual({ version: '0.20.0' });
    expect((await fetch(`${url}/kv_hints/capabilities`)).status).toBe(404);
    expect(await (await fetch(`${url}/kv_hints/capabilities`)).json()).toEqual({ detail: 'Not Found' });
    expect((await fetch(`${url}/v1/completions`)).status).toBe(405);
    const { data } = (await (await fetch(`${url}/v1/models`)).json()) as { data: object[] };
    expect(data).toMatchObject([
      { id: 'm', owned_by: 'vllm', max_model_len: 4096 },
      { id: 'n', owned_by: 'vllm', max_model_len: 4096 },
    ]);
    expect((await fetch(`${url}/health`)).status).toBe(200);
  });

  it('answers 16 tokens where no limit is given, cached tokens only where its flag tells them', async () => {
    const quiet = await vllm();
    const plain = (await ask(quiet, '/v1/completions', { prompt: IDS })).json();
    expect(plain).toMatchObject({
      object: 'text_completion',
      choices: [{ finish_reason: 'length' }],
      usage: { prompt_tokens: 12, completion_tokens: 16, prompt_tokens_details: null },
      kv_transfer_params: null,
    });
    const telling = await vllm(['--enable-prompt-tokens-details']);
    const cached = async () =>
      ((await ask(telling, '/v1/completions', { prompt: IDS, max_tokens: 1 })).json() as { usage: object })
        .usage;
    expect(await cached()).toMatchObject({ prompt_tokens_details: { cached_tokens: 0 } });
    expect(await cached()).toMatchObject({ prompt_tokens_details: { cached_tokens: 8 } });
  });

  it('streams usage as it is asked, and token ids', async () => {
    const double = await vllm(['--enable-prompt-tokens-details']);
    const body = {
      prompt: IDS,
      max_tokens: 2,
      stream: true,
      return_token_ids: true,
      stream_options: { include_usage: true, continuous_usage_stats: true },
    };
    const { text } = await ask(double, '/v1/completions', body);
    const events = text.split('\n\n').filter((line) => line !== '');
    expect(events.at(-1)).toBe('data: [DONE]');
    const chunks = events.slice(0, -1).map((line) => JSON.parse(line.slice(6)) as Record<string, unknown>);
    expect(chunks).toMatchObject([
      { choices: [{ prompt_token_ids: IDS, finish_reason: null }], usage: { completion_tokens: 1 } },
      { choices: [{ finish_reason: 'length' }], usage: { completion_tokens: 2 } },
      { choices: [], usage: { prompt_tokens: 12, completion_tokens: 2 } },
    ]);
    const chat = { messages: [{ role: 'user', content: 'hello' }], stream: true, return_token_ids: true };
    const first = (await ask(double, '/v1/chat/completions', chat)).text.split('\n\n')[0] ?? '';
    const rendered = (await ask(double, '/v1/chat/completions/render', { messages: chat.messages })).json();
    const { token_ids: ids } = rendered as { token_ids: number[] };
    expect(JSON.parse(first.slice(6))).toMatchObject({
      choices: [{ delta: { role: 'assistant', content: '' } }],
      prompt_token_ids: ids,
    });
  });

  it('tokenizes, renders and detokenizes to the same ids', async () => {
    const double = await vllm();
    const completion = { prompt: 'hello world' };
    const { tokens, count } = (await ask(double, '/tokenize', completion)).json() as {
      tokens: number[];
      count: number;
    };
    expect(count).toBe(tokens.length);
    expect((await ask(double, '/v1/completions/render', completion)).json()).toMatchObject([
      { token_ids: tokens, features: null, sampling_params: { max_tokens: 16 } },
    ]);
    expect((await ask(double, '/detokenize', { tokens })).json()).toEqual({ prompt: 'hello world' });
    const messages = [{ role: 'user', content: 'hi' }];
    const chat = (await ask(double, '/tokenize', { messages })).json() as { tokens: number[] };
    expect((await ask(double, '/v1/chat/completions/render', { messages })).json()).toMatchObject({
      token_ids: chat.tokens,
    });
  });

  it('shows load and cache in vLLM’s metrics, per rank', async () => {
    const double = await vllm(['--data-parallel-size', '2', '--num-gpu-blocks-override', '77']);
    await ask(double, '/v1/completions', { prompt: IDS, max_tokens: 1 }, { 'X-Data-Parallel-Rank': '1' });
    const page = await (await fetch(`${double.url}/metrics`)).text();
    expect(page).toContain('vllm:prompt_tokens_total{engine="0",model_name="tiny-sim"} 0.000000');
    expect(page).toContain('vllm:prompt_tokens_total{engine="1",model_name="tiny-sim"} 12.000000');
    expect(page).toContain(
      'vllm:cache_config_info{block_size="4",cache_dtype="auto",enable_prefix_caching="True",engine="1",gpu_memory_utilization="0.9",num_gpu_blocks="77"',
    );
    expect(await (await fetch(`${double.url}/load`)).json()).toEqual({ server_load: 0 });
  });

  it('ignores what it does not know, at every depth', async () => {
    const double = await vllm();
    const plain = { prompt: IDS, max_tokens: 2 };
    const strange = {
      ...plain,
      nvext: { a: 1 },
      kv_hint: {},
      kv_transfer_params: {
        kv_hint: { protocol_version: '0.1' },
        router_hint: 5,
        other: [],
        do_remote_decode: true,
      },
    };
    const [one, other] = await Promise.all([
      ask(double, '/v1/completions', plain, { 'x-request-id': 'a' }),
      ask(double, '/v1/completions', strange, { 'x-request-id': 'a' }),
    ]);
    expect([one.status, other.status]).toEqual([200, 200]);
    expect(double.hintOutcomes()).toEqual([]);
  });
});

describe('what vLLM refuses', () => {
  it.each<[string, unknown, object]>([
    [
      'a priority without priority scheduling',
      { prompt: IDS, priority: -5 },
      error('Got priority -5 but Priority scheduling is not enabled.'),
    ],
    [
      'an empty salt',
      { prompt: IDS, cache_salt: '' },
      error("Parameter 'cache_salt' must be a non-empty string if provided.", 'cache_salt'),
    ],
    [
      'a salt that is too long',
      { prompt: IDS, cache_salt: 's'.repeat(1025) },
      error('String should have at most 1024 characters', 'cache_salt'),
    ],
    [
      'several greedy answers',
      { prompt: IDS, n: 2, temperature: 0 },
      error('n must be 1 when using greedy sampling, got 2.', 'n'),
    ],
    ['no answer', { prompt: IDS, n: 0 }, error('n must be at least 1, got 0.', 'n')],
    [
      'stream options without a stream',
      { prompt: IDS, stream_options: {} },
      error('Stream options can only be defined when `stream=True`.'),
    ],
    [
      'an id beyond the vocabulary',
      { prompt: [4294967295] },
      error('Token id 4294967295 is out of vocabulary', 'prompt'),
    ],
    ['an empty prompt', { prompt: [] }, error('The decoder prompt cannot be empty', 'prompt')],
    [
      'transfer parameters that are no object',
      { prompt: IDS, kv_transfer_params: [] },
      error('Input should be a valid dictionary', 'kv_transfer_params'),
    ],
    [
      'a prompt beyond the context',
      { prompt: Array.from({ length: 32 }, () => 5) },
      error(
        "This model's maximum context length is 32 tokens. However, your request has 32 input tokens. Please reduce the length of the input messages.",
        'input_tokens',
      ),
    ],
    [
      'an answer beyond the context',
      { prompt: IDS, max_tokens: 21 },
      error(
        "'max_tokens' or 'max_completion_tokens' is too large: 21. This model's maximum context length is 32 tokens and your request has 12 input tokens (21 > 32 - 12).",
        'max_tokens',
      ),
    ],
    [
      'a body that is no JSON',
      '{',
      error('[{"type":"json_invalid","loc":["body"],"msg":"JSON decode error"}]'),
    ],
  ])('%s', async (_, body, expected) => {
    const double = await vllm(['--max-model-len', '32']);
    const answer = await ask(double, '/v1/completions', body);
    expect([answer.status, answer.json()]).toEqual([400, expected]);
  });

  it('another model, other media, a caller without the key, a rank that is not there', async () => {
    const double = await vllm(['--api-key', 'secret']);
    const key = { authorization: 'Bearer secret' };
    expect((await ask(double, '/v1/completions', { model: 'x', prompt: IDS }, key)).json()).toEqual(
      error('The model `x` does not exist.', 'model', 404, 'NotFoundError'),
    );
    expect(
      (await ask(double, '/v1/completions', '{}', { ...key, 'content-type': 'text/plain' })).json(),
    ).toEqual(error("Unsupported Media Type: Only 'application/json' is allowed"));
    expect((await ask(double, '/v1/completions', { prompt: IDS })).status).toBe(401);
    expect((await fetch(`${double.url}/metrics`)).status).toBe(200);
    const wrong = await ask(
      double,
      '/v1/completions',
      { prompt: IDS },
      { ...key, 'x-data-parallel-rank': '1' },
    );
    expect(wrong.json()).toEqual(error('data_parallel_rank 1 is out of range [0, 1).'));
    const chat = { messages: [{ role: 'user', content: 'x' }], continue_final_message: true };
    expect((await ask(double, '/v1/chat/completions', chat, key)).json()).toEqual(
      error('Cannot set both `continue_final_message` and `add_generation_prompt` to True.'),
    );
    expect(
      (await ask(double, '/v1/chat/completions', { ...chat, add_generation_prompt: false }, key)).status,
    ).toBe(200);
  });

  it('nothing of a priority once it schedules by them', async () => {
    const double = await vllm(['--scheduling-policy', 'priority']);
    expect((await ask(double, '/v1/completions', { prompt: IDS, priority: -5 })).status).toBe(200);
  });
});

describe('its KV events', () => {
  /** The first event of an address. */
  function firstOf(endpoint: string): Promise<KvEvent> {
    return new Promise((resolve, reject) => {
      subscribeZmq({
        endpoint,
        binds: false,
        topic: 'kv',
        owner: 0,
        sink: {
          onBatch(_owner, _sequence, payload) {
            const [event] = decodeEventBatch(payload).events;
            if (event !== undefined) resolve(structuredClone(event));
          },
        },
        onError: reject,
        onConnection: () => undefined,
      }).then((source) => closers.push(() => source.close()), reject);
    });
  }
  function replayOf(endpoint: string): Promise<Uint8Array[]> {
    const replayed: Uint8Array[] = [];
    return new Promise((resolve, reject) => {
      zmqReplay({ endpoint, clock: realClock, onError: reject }).replay(0, {
        batch: (_, payload) => replayed.push(payload.slice()),
        ended: () => resolve(replayed),
      });
    });
  }
  const closers: (() => void)[] = [];
  afterEach(() => {
    for (const close of closers.splice(0)) close();
  });

  it.each(['map', 'array'] as const)(
    'come from each rank at its own address, in the %s form, and again at replay',
    async (wire) => {
      const double = await vllm(['--data-parallel-size', '2', '--kv-events-config', EVENTS], { wire });
      expect(double.kvEvents).toHaveLength(2);
      const { address, replay } = double.kvEvents[1]!;
      await ask(
        double,
        '/v1/completions',
        { prompt: IDS, max_tokens: 1, cache_salt: 's' },
        { 'x-data-parallel-rank': '1' },
      );
      const batches = (await replayOf(replay ?? '')).map(decodeEventBatch);
      expect(batches.map(({ rank }) => rank)).toEqual([1]);
      expect(batches[0]?.events).toMatchObject([
        {
          kind: 'stored',
          blockSize: 4,
          tokenIds: Uint32Array.from(IDS),
          parent: null,
          cacheSalt: 's',
          tier: 'device',
        },
      ]);
      expect(address).not.toBe(double.kvEvents[0]?.address);
      const listening = firstOf(address);
      let prompt = 100;
      const timer = setInterval(() => {
        prompt += 12;
        const fresh = IDS.map((_, at) => prompt + at);
        ask(
          double,
          '/v1/completions',
          { prompt: fresh, max_tokens: 1 },
          { 'x-data-parallel-rank': '1' },
        ).catch(() => undefined);
      }, 30);
      const event = await listening.finally(() => clearInterval(timer));
      expect(event).toMatchObject({ kind: 'stored', blockSize: 4, loraName: null });
    },
  );

  it('are of another salt’s own blocks, and none without prefix caching', async () => {
    const double = await vllm(['--enable-prompt-tokens-details']);
    const cached = async (salt: string) => {
      const { text } = await ask(double, '/v1/completions', { prompt: IDS, max_tokens: 1, cache_salt: salt });
      return (JSON.parse(text) as { usage: { prompt_tokens_details: { cached_tokens: number } } }).usage
        .prompt_tokens_details.cached_tokens;
    };
    expect([await cached('a'), await cached('a'), await cached('b')]).toEqual([0, 8, 0]);
    const off = await vllm(['--no-enable-prefix-caching', '--kv-events-config', EVENTS]);
    expect(off.kvEvents).toEqual([]);
    const twice = async () => (await ask(off, '/v1/completions', { prompt: IDS, max_tokens: 1 })).status;
    expect([await twice(), await twice()]).toEqual([200, 200]);
    expect(await (await fetch(`${off.url}/metrics`)).text()).toContain(
      'vllm:prefix_cache_hits_total{engine="0",model_name="tiny-sim"} 0.0',
    );
  });

  it('and the rest are as its faults have it, seen through the wires alone', async () => {
    const events = ['--kv-events-config', EVENTS];
    const ask12 = (double: Parameters<typeof ask>[0]) =>
      ask(double, '/v1/completions', { prompt: IDS, max_tokens: 1 });
    const hashesOf = async (faults: DoubleFaults) => {
      const double = await vllm(events, { faults });
      await ask12(double);
      const batches = (await replayOf(double.kvEvents[0]?.replay ?? '')).map(decodeEventBatch);
      return batches.flatMap((batch) =>
        batch.events.map((event) => (event.kind === 'stored' ? event.external.join() : event.kind)),
      );
    };
    const well = await hashesOf({});
    expect(well).toHaveLength(1);
    expect(await hashesOf({})).toEqual(well);
    expect(await hashesOf({ randomHashSeed: true })).not.toEqual(well);
    expect(await hashesOf({ eventsOff: true })).toEqual([]);
    const lying = await vllm([], { faults: { announcedBlockSize: 32, prefixCachingOff: true } });
    await ask12(lying);
    await ask12(lying);
    const page = await (await fetch(`${lying.url}/metrics`)).text();
    expect(page).toContain('block_size="32",cache_dtype="auto",enable_prefix_caching="False"');
    expect(page).toContain('vllm:prefix_cache_hits_total{engine="0",model_name="tiny-sim"} 0.0');
  });
});
