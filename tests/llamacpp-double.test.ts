// The gateway in front of llama.cpp's server, as its double plays it: the configuration is the one of docs/engines/llamacpp.md.
import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import type { RunningRouter } from '../src/cli/running-router.ts';
import { systemClock } from '../src/cli/system-clock.ts';
import { type LlamaServerDouble, type LlamaServerOptions, startLlamaServer } from '../src/simulator/index.ts';
import { loadTextTokenizer, TINY_TOKENIZER } from '../src/tokens/index.ts';
import { client, router, until, words } from './live-support.ts';

const doubles: LlamaServerDouble[] = [];
afterEach(async () => {
  for (const double of doubles.splice(0)) await double.close();
});

async function llamaServer(over: Partial<LlamaServerOptions> = {}): Promise<LlamaServerDouble> {
  const double = await startLlamaServer({
    ...{
      alias: 'my-model',
      slots: 4,
      slotContext: 4096,
      metrics: true,
      showsSlots: true,
      detailsUsage: true,
    },
    ...{ tokenMs: 1, clock: systemClock() },
    tokenizer: loadTextTokenizer(TINY_TOKENIZER.tokenizer, TINY_TOKENIZER.template),
    ...over,
  });
  doubles.push(double);
  return double;
}

/** The block of the page behind a heading, made to fit the double. */
function yamlOf(page: string, heading: string, url: string): string {
  const text = readFileSync(page, 'utf8');
  const [, block = ''] = /```yaml\n([\s\S]*?)```/.exec(text.slice(text.indexOf(heading))) ?? [];
  return block
    .replace(/http:\/\/[\w.]+:\d+/, url)
    .replace(/tokenizer: \S+/, `tokenizer: ${TINY_TOKENIZER.tokenizer}, template: ${TINY_TOKENIZER.template}`)
    .concat('listen: { host: 127.0.0.1, port: 0 }\nadmin: { host: 127.0.0.1, port: 0 }\n');
}

const PAGE = 'docs/engines/llamacpp.md';
const documented = (double: LlamaServerDouble): Promise<RunningRouter> =>
  router(yamlOf(PAGE, '## llama-server', double.url));

describe("llama.cpp's server behind the gateway", () => {
  it('runs from the documented files, with what was predicted, and goes on in the slot where it began', async () => {
    const double = await llamaServer();
    const on = await documented(double);
    const sdk = client(on.url);
    const send = async (prompt: string): Promise<{ reported: number; predicted: number; slot: string }> => {
      const answer = await sdk.completions.create({ model: 'my-model', prompt, max_tokens: 3 });
      const [record] = on.core.decisions?.list(1, {}) ?? [];
      const sent =
        double
          .requests()
          .findLast(({ path }) => path === '/v1/completions')
          ?.body.toString() ?? '';
      return {
        reported: answer.usage?.prompt_tokens_details?.cached_tokens ?? 0,
        predicted: record?.prediction?.cached_tokens ?? -1,
        slot: /"id_slot":(\d)/.exec(sent)?.[1] ?? 'none',
      };
    };
    for (const seed of [1, 2, 3]) {
      const first = await send(words(80, seed));
      const second = await send(words(80, seed) + words(20, 4));
      // Slots hold tokens, the router counts blocks of 16.
      for (const { predicted, reported } of [first, second])
        expect(Math.floor(reported / 16) * 16).toBe(predicted);
      expect([second.slot, second.predicted]).toEqual([first.slot, 80]);
    }
    expect(on.readiness().reasons).toEqual([]);
    // Its own account: four slots.
    expect(on.core.fleet.workers()[0]?.engine).toMatchObject({
      dialect: 'llamacpp',
      description: { ranks: 4 },
    });
  });

  it('believes in one prompt per slot: the last one', async () => {
    const double = await llamaServer({ slots: 1 });
    const on = await router(yamlOf(PAGE, '## llama-server', double.url).replace('count: 4', 'count: 1'));
    const sdk = client(on.url);
    const cached = async (prompt: string): Promise<readonly unknown[]> => {
      const answer = await sdk.completions.create({ model: 'my-model', prompt, max_tokens: 2 });
      const [record] = on.core.decisions?.list(1, {}) ?? [];
      return [record?.prediction?.cached_tokens, answer.usage?.prompt_tokens_details?.cached_tokens];
    };
    expect(await cached(words(64, 1))).toEqual([0, 0]);
    expect(await cached(words(64, 1))).toEqual([48, 63]);
    await cached(words(64, 2));
    expect((await cached(words(64, 1)))[0]).toBe(0);
  });

  it('streams chats, and reads what is cached from timings where a build says it nowhere else', async () => {
    const double = await llamaServer({ detailsUsage: false });
    const on = await documented(double);
    const sdk = client(on.url);
    const chat = {
      model: 'my-model',
      max_tokens: 5,
      messages: [{ role: 'user' as const, content: words(60, 1) }],
    };
    for (const expected of [0, 48]) {
      let chunks = 0;
      for await (const chunk of await sdk.chat.completions.create({ ...chat, stream: true })) {
        if ((chunk.choices[0]?.delta.content ?? '') !== '') chunks += 1;
      }
      expect(chunks).toBe(5);
      const [record] = on.core.decisions?.list(1, {}) ?? [];
      expect(record?.report?.cached_tokens ?? 0).toBeGreaterThanOrEqual(expected);
    }
  });

  it('ends a request whose client leaves, and tells the load', async () => {
    const double = await llamaServer({ tokenMs: 50 });
    const on = await documented(double);
    const leaving = new AbortController();
    const running = client(on.url)
      .completions.create(
        { model: 'my-model', prompt: words(20, 1), max_tokens: 200 },
        { signal: leaving.signal },
      )
      .then(
        () => 'answered',
        () => 'left',
      );
    await until('a slot is busy', () => double.slots().some(({ isProcessing }) => isProcessing));
    leaving.abort();
    expect(await running).toBe('left');
    await until('the slot is free', () => double.slots().every(({ isProcessing }) => !isProcessing));
  });

  it("passes a refusal on in the server's words", async () => {
    const on = await documented(await llamaServer({ slotContext: 64 }));
    await expect(
      client(on.url).completions.create({ model: 'my-model', prompt: words(70, 1), max_tokens: 2 }),
    ).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining('exceeds the available context size (64 tokens)'),
    });
  });
});

describe('the double', () => {
  const post = async (
    url: string,
    body: object,
  ): Promise<{ status: number; answer: Record<string, unknown> }> => {
    const response = await fetch(`${url}/v1/completions`, { method: 'POST', body: JSON.stringify(body) });
    const answer: Record<string, unknown> = Object(await response.json());
    return { status: response.status, answer };
  };
  const cachedOf = (answer: Record<string, unknown>): unknown => Object(answer.timings).cache_n;
  const ids = (count: number, from: number): number[] =>
    Array.from({ length: count }, (_, at) => from + (at % 30));

  it('gives a request without a slot the idle one that resembles it most, else the one used least recently', async () => {
    const { url } = await llamaServer({ slots: 2 });
    await post(url, { prompt: ids(40, 1), max_tokens: 1, id_slot: 0 });
    await post(url, { prompt: ids(40, 50), max_tokens: 1, id_slot: 1 });
    expect(cachedOf((await post(url, { prompt: [...ids(40, 1), 9], max_tokens: 1 })).answer)).toBe(40);
    // Nothing alike: slot 1 is older, and loses its tokens.
    await post(url, { prompt: ids(40, 90), max_tokens: 1 });
    expect(cachedOf((await post(url, { prompt: [...ids(40, 1), 9], max_tokens: 1 })).answer)).toBe(40);
    expect(cachedOf((await post(url, { prompt: ids(40, 50), max_tokens: 1, id_slot: 1 })).answer)).toBe(0);
  });

  it('lets a request wait for its slot while others pass, and ignores what it does not know', async () => {
    const { url } = await llamaServer({ slots: 2, tokenMs: 5 });
    const order: string[] = [];
    const ask = async (name: string, body: object): Promise<void> => {
      await post(url, { prompt: ids(20, 1), kv_hints: 'x', session_id: 7, ...body });
      order.push(name);
    };
    await Promise.all([
      ask('long', { id_slot: 0, max_tokens: 30 }),
      ask('same slot', { id_slot: 0, max_tokens: 1 }),
      ask('other slot', { id_slot: 1, max_tokens: 1 }),
    ]);
    expect(order).toEqual(['other slot', 'long', 'same slot']);
  });

  it('uses no cache where it is told not to, and refuses what the server refuses', async () => {
    const double = await llamaServer({ slots: 1, slotContext: 64, metrics: false, showsSlots: false });
    const { url } = double;
    await post(url, { prompt: ids(40, 1), max_tokens: 1 });
    expect(
      cachedOf((await post(url, { prompt: ids(40, 1), max_tokens: 1, cache_prompt: false })).answer),
    ).toBe(0);
    expect((await post(url, { prompt: ids(64, 1) })).answer).toEqual({
      error: {
        ...{ code: 400, type: 'exceed_context_size_error', n_prompt_tokens: 64, n_ctx: 64 },
        message: 'the request exceeds the available context size (64 tokens), try increasing it',
      },
    });
    const statusOf = async (path: string): Promise<number> => (await fetch(url + path)).status;
    expect(await Promise.all(['/slots', '/metrics', '/none', '/health'].map(statusOf))).toEqual([
      501, 501, 404, 200,
    ]);
  });
});
