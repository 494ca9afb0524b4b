import * as fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { loadTextTokenizer, TINY_TOKENIZER } from '../../../tokens/index.ts';
import { hashesOfPrompt, listen, post, sse, stopAll } from '../../wire/wire.fixtures.ts';
import { DoubleRefusal } from '../double-server.ts';
import { startDouble, stopDoubles } from './sglang.fixtures.ts';
import type { SglangDouble } from './sglang-double.ts';
import { readHint } from './sglang-hint.ts';
import { readSglangRequest, type SglangApi } from './sglang-request.ts';

afterEach(async () => {
  await stopAll();
  await stopDoubles();
});

const sampling_params = { max_new_tokens: 3 };
const ids = (count: number, from = 1): number[] => Array.from({ length: count }, (_, at) => from + at);

async function generate(url: string, body: object, headers: Record<string, string> = {}) {
  const answer = await post(`${url}/generate`, { sampling_params, ...body }, headers);
  return { status: answer.status, body: JSON.parse(await answer.text()) };
}

/** Hashes under which a double announces the blocks of a prompt. */
async function announcedHashes({ url }: SglangDouble, prompt: readonly number[]): Promise<bigint[]> {
  const info = JSON.parse(await (await fetch(`${url}/server_info`)).text());
  const heard = await listen(JSON.parse(info.kv_events_config).endpoint.replace('*', '127.0.0.1'));
  // A subscriber that has only just connected may miss what is published meanwhile.
  await vi.waitFor(async () => {
    await post(`${url}/flush_cache`, {});
    await generate(url, { input_ids: prompt });
    expect(hashesOfPrompt(heard.events, prompt).length).toBe(Math.floor(prompt.length / 4));
  });
  return hashesOfPrompt(heard.events, prompt);
}

describe('/generate', () => {
  it('answers with ids, text and what was cached, the second time from the cache', async () => {
    const { url } = await startDouble();
    const first = await generate(url, { input_ids: ids(9), rid: 'r-1' });
    expect(first.body.meta_info).toMatchObject({
      id: 'r-1',
      finish_reason: { type: 'length', length: 3 },
      prompt_tokens: 9,
      completion_tokens: 3,
      cached_tokens: 0,
    });
    expect(first.body.output_ids).toHaveLength(3);
    expect((await generate(url, { input_ids: ids(9) })).body.meta_info.cached_tokens).toBe(8);
  });

  it('repeats the text of a stream from its start, unless it writes increments', async () => {
    const texts = async (incremental: boolean) => {
      const { url } = await startDouble({}, { incremental });
      const chunks = await sse(
        await post(`${url}/generate`, { sampling_params, input_ids: ids(5), stream: true, rid: 'same' }),
      );
      expect(chunks.at(-1)).toBe('[DONE]');
      return chunks.slice(0, -1).map((chunk) => {
        const { text, output_ids: out } = JSON.parse(JSON.stringify(chunk));
        return [text, out.length];
      });
    };
    const [whole, parts] = [await texts(false), await texts(true)];
    expect(whole.map(([, count]) => count)).toEqual([1, 2, 3]);
    expect(parts.map(([, count]) => count)).toEqual([1, 1, 1]);
    expect(whole.map(([text]) => text)).toEqual([
      parts[0]?.[0],
      `${parts[0]?.[0]}${parts[1]?.[0]}`,
      parts.map(([text]) => text).join(''),
    ]);
  });

  it.each([
    [
      'text and ids at once',
      { text: 'a', input_ids: [1] },
      'Either text, input_ids or input_embeds should be provided.',
    ],
    ['neither', {}, 'Either text, input_ids or input_embeds should be provided.'],
    ['an empty list of ids', { input_ids: [] }, 'input_ids cannot be empty.'],
    ['what is no id', { input_ids: [-1] }, 'the token id at 0 is no number of a token'],
    [
      'a session in two ways',
      { input_ids: [1], session_id: 's', session_params: { id: 's' } },
      'session_id and session_params cannot be specified together.',
    ],
    [
      'a prompt that is too long',
      { input_ids: ids(40) },
      "The input (40 tokens) is longer than the model's context length (32 tokens).",
    ],
    [
      'an answer that would be too long',
      { input_ids: ids(30) },
      "Requested token count exceeds the model's maximum context length of 32 tokens. You requested a total of 33 tokens: 30 tokens from the input messages and 3 tokens for the completion.",
    ],
    [
      'a rank that is not there',
      { input_ids: [1], routed_dp_rank: 2 },
      'routed_dp_rank=2 out of range [0, 1)',
    ],
    [
      'no tokens to generate',
      { input_ids: [1], sampling_params: { max_new_tokens: 0 } },
      'max_new_tokens must be at least 1, got 0.',
    ],
  ])('refuses %s', async (_, body, message) => {
    const { url } = await startDouble({}, { contextLength: 32 });
    expect(await generate(url, body)).toEqual({ status: 400, body: { error: { message } } });
  });

  it('refuses a name that is in use, and takes it again afterwards', async () => {
    const { url, active } = await startDouble({ speedup: 0.01 });
    const controller = new AbortController();
    const first = fetch(`${url}/generate`, {
      method: 'POST',
      body: JSON.stringify({ input_ids: ids(5), rid: 'r', stream: true }),
      signal: controller.signal,
    }).catch(() => null);
    await vi.waitFor(() => expect(active()).toBe(1));
    expect((await generate(url, { input_ids: [1], rid: 'r' })).body.error.message).toBe(
      'Duplicate request ID detected: r',
    );
    controller.abort();
    await first;
    await vi.waitFor(() => expect(active()).toBe(0));
  });

  it('ignores what it does not know', async () => {
    const { url } = await startDouble();
    const body = {
      input_ids: ids(5),
      kv_transfer_params: { kv_hint: 1 },
      kv_router_hint: 5,
      unheard_of: [1],
    };
    expect((await generate(url, body)).status).toBe(200);
  });

  it('takes a priority that it does not heed, or refuses it where it was told to', async () => {
    const calm = await startDouble();
    expect((await generate(calm.url, { input_ids: [1], priority: 3 })).status).toBe(200);
    const strict = await startDouble({}, { refusesPriorities: true });
    expect((await generate(strict.url, { input_ids: [1], priority: 3 })).body.error.message).toBe(
      'Using priority is disabled for this server. Please send a new request without a priority.',
    );
    const able = await startDouble({}, { refusesPriorities: true, priorities: true });
    expect((await generate(able.url, { input_ids: [1], priority: 3 })).status).toBe(200);
  });

  it('keeps prompts of different salts and extra keys apart', async () => {
    const { url } = await startDouble();
    const cached = async (over: object) =>
      (await generate(url, { input_ids: ids(9), ...over })).body.meta_info.cached_tokens;
    const salts = [
      {},
      { cache_salt: 'a' },
      { extra_key: 'a' },
      { cache_salt: 'a', extra_key: 'a' },
      { cache_salt: '' },
    ];
    const first: number[] = [];
    for (const salt of salts) first.push(await cached(salt));
    expect(first).toEqual([0, 0, 0, 0, 8]);
    expect(await cached({ cache_salt: 'a' })).toBe(8);
  });
});

describe('ranks', () => {
  it('are pinned by header before member, by the newer member before the older, each with a cache of its own', async () => {
    const { url } = await startDouble({}, { ranks: 3 });
    const cached = async (body: object, header?: string) =>
      (
        await generate(
          url,
          { input_ids: ids(9), ...body },
          header === undefined ? {} : { 'x-data-parallel-rank': header },
        )
      ).body.meta_info.cached_tokens;
    expect(await cached({ routed_dp_rank: 2 })).toBe(0);
    expect(await cached({ routed_dp_rank: 0 }, '2')).toBe(8);
    expect(await cached({ routed_dp_rank: 2, data_parallel_rank: 1 })).toBe(8);
    expect(await cached({ data_parallel_rank: 1 })).toBe(0);
    expect(await cached({ data_parallel_rank: 1 })).toBe(8);
    const wrong = await post(`${url}/generate`, { input_ids: [1] }, { 'x-data-parallel-rank': 'one' });
    expect([wrong.status, await wrong.json()]).toEqual([
      400,
      { detail: "Invalid X-Data-Parallel-Rank header: must be an integer, got 'one'" },
    ]);
  });
});

describe('the OpenAI endpoints', () => {
  it('answer in OpenAI shape, and tell cached tokens only where the server reports them', async () => {
    const usage = async (reportsCache: boolean) => {
      const { url } = await startDouble({}, { reportsCache });
      const body = { prompt: ids(9), max_tokens: 2, rid: 'r' };
      await post(`${url}/v1/completions`, body);
      const answer = JSON.parse(await (await post(`${url}/v1/completions`, body)).text());
      expect(answer).toMatchObject({
        id: 'r',
        object: 'text_completion',
        choices: [{ finish_reason: 'length' }],
      });
      return answer.usage.prompt_tokens_details;
    };
    expect([await usage(false), await usage(true)]).toEqual([null, { cached_tokens: 8 }]);
  });

  it('stream chat with the role first and the usage last', async () => {
    const { url } = await startDouble();
    const body = {
      messages: [{ role: 'user', content: 'hello' }],
      max_tokens: 2,
      stream: true,
      stream_options: { include_usage: true },
    };
    const chunks = await sse(await post(`${url}/v1/chat/completions`, body));
    expect(chunks).toMatchObject([
      { choices: [{ delta: { role: 'assistant', content: '' } }] },
      { choices: [{ delta: {}, finish_reason: null }] },
      { choices: [{ delta: {}, finish_reason: 'length' }] },
      { choices: [], usage: { completion_tokens: 2 } },
      '[DONE]',
    ]);
  });

  it('tell errors in OpenAI shape', async () => {
    const { url } = await startDouble();
    const answer = await post(`${url}/v1/completions`, { prompt: [] });
    expect([answer.status, await answer.json()]).toEqual([
      400,
      { object: 'error', message: 'Prompt cannot be empty', type: 'BadRequest', param: null, code: 400 },
    ]);
    expect((await fetch(`${url}/nowhere`)).status).toBe(404);
    expect((await fetch(`${url}/generate`)).status).toBe(405);
  });
});

describe('what it says and does besides', () => {
  it('is described at the newer and the older name, or the older alone', async () => {
    const { url } = await startDouble(
      { kvBlocks: 100 },
      { ranks: 2, events: { topic: 'kv', base: 0, replayBase: null } },
    ).catch(() => startDouble({ kvBlocks: 100 }, { ranks: 2 }));
    const info = JSON.parse(await (await fetch(`${url}/server_info`)).text());
    expect(info).toMatchObject({
      page_size: 4,
      dp_size: 2,
      max_total_num_tokens: 400,
      disable_radix_cache: false,
    });
    expect(await (await fetch(`${url}/get_server_info`)).json()).toEqual(info);
    const older = await startDouble({}, { olderNames: true });
    expect((await fetch(`${older.url}/server_info`)).status).toBe(404);
    expect((await fetch(`${older.url}/get_server_info`)).status).toBe(200);
  });

  it('tells the load of each rank', async () => {
    const { url } = await startDouble({ kvBlocks: 100 }, { ranks: 2 });
    await generate(url, { input_ids: ids(9), routed_dp_rank: 1 });
    const { loads } = JSON.parse(await (await fetch(`${url}/v1/loads?include=core`)).text());
    expect(loads).toMatchObject([
      { dp_rank: 0, num_running_reqs: 0, token_usage: 0 },
      { dp_rank: 1, num_running_reqs: 0, max_total_num_tokens: 400 },
    ]);
    expect(loads[1].token_usage).toBeGreaterThan(0);
  });

  it('tokenizes', async () => {
    const { url } = await startDouble();
    const { count, tokens } = JSON.parse(
      await (await post(`${url}/tokenize`, { prompt: 'hello world' })).text(),
    );
    expect(tokens).toHaveLength(count);
  });

  it('aborts by name, and answers what it has', async () => {
    const { url, active } = await startDouble({ speedup: 0.01 });
    const whole = generate(url, { input_ids: ids(5), rid: 'r' });
    await vi.waitFor(() => expect(active()).toBe(1));
    expect((await post(`${url}/abort_request`, { rid: 'other' })).status).toBe(200);
    expect(active()).toBe(1);
    await post(`${url}/abort_request`, { rid: 'r' });
    expect((await whole).body.meta_info.finish_reason.type).toBe('abort');
    expect(active()).toBe(0);
  });

  it('notices that the client of a whole answer left only after a while', async () => {
    const { url, active } = await startDouble({ speedup: 0.001 }, { noticesAfterMs: 100 });
    const controller = new AbortController();
    const gone = fetch(`${url}/generate`, {
      method: 'POST',
      body: JSON.stringify({ input_ids: ids(5) }),
      signal: controller.signal,
    }).catch(() => null);
    await vi.waitFor(() => expect(active()).toBe(1));
    controller.abort();
    await gone;
    expect(active()).toBe(1);
    await vi.waitFor(() => expect(active()).toBe(0));
  });

  it('closes sessions, and flushes its cache when nothing is under way', async () => {
    const double = await startDouble();
    await post(`${double.url}/close_session`, { session_id: 's' });
    expect(double.closedSessions()).toEqual(['s']);
    await generate(double.url, { input_ids: ids(9) });
    expect((await post(`${double.url}/flush_cache`, {})).status).toBe(200);
    expect((await generate(double.url, { input_ids: ids(9) })).body.meta_info.cached_tokens).toBe(0);
  });

  it('publishes its birth, a store for each page, and a flush', async () => {
    const { url } = await startDouble({ blockSize: 1 }, { events: { topic: 'kv', base: 0, replayBase: 0 } });
    const { kv_events_config: config } = JSON.parse(await (await fetch(`${url}/server_info`)).text());
    const { endpoint, replay_endpoint: replay, topic } = JSON.parse(config);
    expect([endpoint, replay, topic]).toEqual([
      expect.stringMatching(/^tcp:\/\/\*:\d+$/),
      expect.stringMatching(/^tcp:\/\/\*:\d+$/),
      'kv',
    ]);
    const heard = await listen(endpoint.replace('*', '127.0.0.1'));
    await vi.waitFor(async () => {
      await generate(url, { input_ids: ids(5), sampling_params: { max_new_tokens: 1 } });
      await post(`${url}/flush_cache`, {});
      expect(heard.events.length).toBeGreaterThan(0);
    });
    const events = await heard.until((all) => all.some(({ kind }) => kind === 'cleared'));
    const stores = events.filter((event) => event.kind === 'stored');
    expect(
      stores.every(
        ({ external, blockSize, tokenIds }) =>
          external.length === 2 && blockSize === 1 && tokenIds.length === 1,
      ),
    ).toBe(true);
  });
});

it('fetches from a peer by the first well-formed fetch of an envelope, and skips the rest', async () => {
  const source = await startDouble({}, { events: { topic: '', base: 0, replayBase: 0 } });
  const prompt = ids(13);
  const chain = await announcedHashes(source, prompt);
  expect(chain).toHaveLength(3);
  const cached = async (hashes: readonly bigint[]) => {
    const target = await startDouble();
    const action = (type: string, version: string, payload: string) =>
      `{"action_id":"a","action_type":"${type}","action_version":"${version}","payload":${payload}}`;
    const actions = [
      action('kv.retain', '1.0', '{"block_hashes":[]}'),
      action('kv.fetch', '2.0', '{"source_control_endpoint":"x","block_hashes":[1]}'),
      action('kv.fetch', '1.0', '{"block_hashes":[1]}'),
      action(
        'kv.fetch',
        '1.0',
        `{"source_control_endpoint":"${source.control[0]}","block_hashes":[${hashes.join()}]}`,
      ),
      action('kv.fetch', '1.0', '{"source_control_endpoint":"tcp://127.0.0.1:1","block_hashes":[1]}'),
    ];
    const envelope = `{"protocol_version":"0.1","message_id":"m","actions":[${actions.join()}]}`;
    const body = `{"input_ids":[${prompt.join()}],"sampling_params":{"max_new_tokens":1},"kv_hints":${envelope}}`;
    return JSON.parse(await (await post(`${target.url}/generate`, body)).text()).meta_info.cached_tokens;
  };
  expect(await cached(chain)).toBe(12);
  // As SGLang's events write them.
  expect(await cached(chain.map((hash) => BigInt.asIntN(64, hash)))).toBe(12);
});

describe('readHint', () => {
  const endpoint = 'tcp://a:1';
  const hashesOf = (list: unknown[]) => {
    const hint = readHint(
      { kv_router_hint: { source_control_endpoint: endpoint, block_hashes: list } },
      'kv_router_hint',
    );
    return JSON.parse(JSON.stringify(hint, (_, value) => (typeof value === 'bigint' ? String(value) : value)))
      ?.actions[0].payload.block_hashes;
  };

  it('takes numbers of either sign and hexadecimal text, and stops at the first it cannot read', () => {
    expect(hashesOf([1, -1, 18446744073709551615n, 'ff', 'ffffffffffffffff00'])).toEqual([
      '1',
      '18446744073709551615',
      '18446744073709551615',
      '255',
      '18446744073709551615',
    ]);
    expect(hashesOf([1, 1.5, 2])).toEqual(['1']);
    expect([hashesOf([]), hashesOf(['x']), hashesOf([null])]).toEqual([undefined, undefined, undefined]);
  });
});

it('reads any body without failing in another way than by a refusal', () => {
  const tokenizer = loadTextTokenizer(TINY_TOKENIZER.tokenizer, TINY_TOKENIZER.template);
  const reader = {
    tokenizer,
    ranks: 2,
    contextLength: 100,
    hintField: 'kv_hints',
    priorities: false,
    refusesPriorities: false,
  } as const;
  const members = [
    'input_ids',
    'prompt',
    'sampling_params',
    'kv_hints',
    'rid',
    'routed_dp_rank',
    'cache_salt',
    'max_tokens',
  ];
  fc.assert(
    fc.property(
      fc.constantFrom<SglangApi>('generate', 'completions'),
      fc.oneof(fc.jsonValue(), fc.dictionary(fc.constantFrom(...members), fc.jsonValue())),
      fc.option(fc.string(), { nil: undefined }),
      (api, body, pin) => {
        try {
          readSglangRequest(api, body, pin, reader);
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(DoubleRefusal);
        }
      },
    ),
  );
});
