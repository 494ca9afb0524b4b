import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { workerFixture } from '../../tests/gateway-fixtures.ts';
import type { Worker } from '../fleet/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import { idsOf, type TokensQuestion } from './engine-tokens.ts';
import { createTokensAsker, type TokensAsker } from './tokens-asker.ts';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

/** What a server was asked. */
interface Call {
  readonly path: string;
  readonly body: unknown;
}

/** An HTTP server that answers by path; a path it does not have gets 404. */
async function engine(
  dialect: string,
  routes: Readonly<Record<string, (body: unknown) => readonly [number, unknown]>>,
): Promise<{ readonly worker: Worker; readonly calls: Call[]; readonly asker: TokensAsker }> {
  const calls: Call[] = [];
  const server: Server = createServer((request, response) => {
    void bodyOf(request).then((body) => {
      const path = request.url ?? '';
      calls.push({ path, body });
      const [status, answer] = routes[path]?.(body) ?? [404, { detail: 'Not Found' }];
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(typeof answer === 'string' ? answer : JSON.stringify(answer));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const asker = createTokensAsker();
  closers.push(async () => {
    await asker.close();
    await new Promise((resolve) => server.close(resolve));
  });
  const { spec, ...rest } = workerFixture();
  return { worker: { ...rest, spec: { ...spec, dialect, url: `http://127.0.0.1:${port}` } }, calls, asker };
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(Buffer.from(part));
  return JSON.parse(Buffer.concat(parts).toString('utf8'));
}

const PROMPT: TokensQuestion = { kind: 'prompt', text: 'hello', addSpecialTokens: true, truncation: null };
const MESSAGES = [{ role: 'user', content: 'hello' }];
const TOOLS = [{ type: 'function', function: { name: 'f' } }];
const CHAT: TokensQuestion = {
  kind: 'chat',
  chat: {
    messages: MESSAGES,
    tools: TOOLS,
    addGenerationPrompt: true,
    addSpecialTokens: false,
    variables: { enable_thinking: false },
  },
};
const NEVER = new AbortController().signal;

describe('vLLM as a tokenizer', () => {
  it('is asked to render, a chat as one object and a prompt as a list of one', async () => {
    const { worker, calls, asker } = await engine('vllm', {
      '/v1/completions/render': () => [200, [{ token_ids: [1, 2], features: null }]],
      '/v1/chat/completions/render': () => [200, { token_ids: [3, 4294967295], features: {} }],
    });
    const cut = { tokens: 8, side: 'right' as const };
    expect(await asker.ask(worker, 'served', { ...PROMPT, truncation: cut }, NEVER)).toEqual(
      Uint32Array.of(1, 2),
    );
    expect(await asker.ask(worker, 'served', CHAT, NEVER)).toEqual(Uint32Array.of(3, 4294967295));
    expect(calls).toEqual([
      {
        path: '/v1/completions/render',
        body: {
          model: 'served',
          prompt: 'hello',
          add_special_tokens: true,
          truncate_prompt_tokens: 8,
          truncation_side: 'right',
        },
      },
      {
        path: '/v1/chat/completions/render',
        body: {
          model: 'served',
          messages: MESSAGES,
          tools: TOOLS,
          add_generation_prompt: true,
          continue_final_message: false,
          add_special_tokens: false,
          chat_template_kwargs: { enable_thinking: false },
          return_mm_kwargs: false,
        },
      },
    ]);
  });

  it.each([
    ['newer', { error: { message: 'The model `french` does not exist.', type: 'NotFoundError', code: 404 } }],
    [
      'older',
      { object: 'error', message: 'The model `french` does not exist.', type: 'NotFoundError', code: 404 },
    ],
  ])('keeps its endpoints when it knows no model by a name, as %s servers say it', async (_, unknown) => {
    const { worker, asker } = await engine('vllm', {
      '/v1/completions/render': (body) =>
        Object(body).model === 'french' ? [404, unknown] : [200, [{ token_ids: [5] }]],
    });
    await expect(asker.ask(worker, 'french', PROMPT, NEVER)).rejects.toThrow(
      'the engine answered POST /v1/completions/render that it has no such model',
    );
    expect(await asker.ask(worker, 'm', PROMPT, NEVER)).toEqual(Uint32Array.of(5));
  });

  it('is asked to tokenize where it cannot render, and not asked to render again', async () => {
    const { worker, calls, asker } = await engine('vllm', {
      '/tokenize': (body) => [
        200,
        { count: 1, max_model_len: 99, tokens: 'messages' in Object(body) ? [7] : [8] },
      ],
    });
    for (let run = 0; run < 2; run += 1) {
      expect(await asker.ask(worker, 'm', CHAT, NEVER)).toEqual(Uint32Array.of(7));
      expect(await asker.ask(worker, 'm', PROMPT, NEVER)).toEqual(Uint32Array.of(8));
    }
    expect(calls.map(({ path }) => path)).toEqual([
      '/v1/chat/completions/render',
      '/tokenize',
      '/v1/completions/render',
      '/tokenize',
      '/tokenize',
      '/tokenize',
    ]);
    expect(calls[1]?.body).not.toHaveProperty('return_mm_kwargs');
    // Another server may come at the address.
    asker.forget(worker.spec.url);
    await asker.ask(worker, 'm', CHAT, NEVER);
    expect(calls.at(-2)?.path).toBe('/v1/chat/completions/render');
  });

  it('tells a refusal from a server that is not able, busy or broken', async () => {
    const refusing = await engine('vllm', {
      '/v1/completions/render': () => [400, { error: { message: 'secret' } }],
    });
    expect(await refusing.asker.ask(refusing.worker, 'm', PROMPT, NEVER)).toBe('refused');
    const none = await engine('vllm', {});
    expect(await none.asker.ask(none.worker, 'm', PROMPT, NEVER)).toBe('unable');
    for (const status of [401, 429, 500, 503]) {
      const broken = await engine('vllm', { '/v1/completions/render': () => [status, 'secret'] });
      await expect(broken.asker.ask(broken.worker, 'm', PROMPT, NEVER)).rejects.toThrow(
        `the engine answered POST /v1/completions/render with status ${status}`,
      );
    }
  });
});

describe('SGLang as a tokenizer', () => {
  it('is asked for prompts and for messages', async () => {
    const { worker, calls, asker } = await engine('sglang', {
      '/tokenize': (body) => [200, { tokens: 'messages' in Object(body) ? [1] : [2, 3], count: 1 }],
    });
    expect(await asker.ask(worker, 'm', PROMPT, NEVER)).toEqual(Uint32Array.of(2, 3));
    expect(await asker.ask(worker, 'm', CHAT, NEVER)).toEqual(Uint32Array.of(1));
    expect(calls[0]?.body).toEqual({ model: 'm', prompt: 'hello', add_special_tokens: true });
    expect(calls[1]?.body).toMatchObject({ messages: MESSAGES, tools: TOOLS, add_generation_prompt: true });
  });

  it('is not asked for chats again where it takes no messages, but where it refused one it is', async () => {
    const old = await engine('sglang', {
      '/tokenize': (body) => ('prompt' in Object(body) ? [200, { tokens: [1] }] : [422, { detail: [] }]),
    });
    expect(await old.asker.ask(old.worker, 'm', CHAT, NEVER)).toBe('unable');
    expect(old.calls.length).toBe(2);
    expect(await old.asker.ask(old.worker, 'm', CHAT, NEVER)).toBe('unable');
    expect(old.calls.length).toBe(2);
    expect(await old.asker.ask(old.worker, 'm', PROMPT, NEVER)).toEqual(Uint32Array.of(1));
    const recent = await engine('sglang', {
      '/tokenize': (body) => ('tools' in Object(body) ? [400, {}] : [200, { tokens: [1] }]),
    });
    expect(await recent.asker.ask(recent.worker, 'm', CHAT, NEVER)).toBe('refused');
    expect(
      await recent.asker.ask(
        recent.worker,
        'm',
        { kind: 'chat', chat: { ...CHAT.chat, tools: undefined } },
        NEVER,
      ),
    ).toEqual(Uint32Array.of(1));
  });
});

describe('llama.cpp as a tokenizer', () => {
  it('renders a chat and reads special tokens in it', async () => {
    const { worker, calls, asker } = await engine('llamacpp', {
      '/apply-template': () => [200, { prompt: '<s>hello' }],
      '/tokenize': () => [200, { tokens: [1, 9] }],
    });
    expect(await asker.ask(worker, 'm', CHAT, NEVER)).toEqual(Uint32Array.of(1, 9));
    expect(await asker.ask(worker, 'm', PROMPT, NEVER)).toEqual(Uint32Array.of(1, 9));
    expect(calls).toEqual([
      {
        path: '/apply-template',
        body: {
          messages: MESSAGES,
          tools: TOOLS,
          add_generation_prompt: true,
          chat_template_kwargs: { enable_thinking: false },
        },
      },
      { path: '/tokenize', body: { content: '<s>hello', add_special: true, parse_special: true } },
      { path: '/tokenize', body: { content: 'hello', add_special: true, parse_special: true } },
    ]);
  });

  it('says what it cannot do, and what it refuses', async () => {
    const plain = await engine('llamacpp', { '/tokenize': () => [200, { tokens: [] }] });
    expect(await plain.asker.ask(plain.worker, 'm', CHAT, NEVER)).toBe('unable');
    const strict = await engine('llamacpp', { '/apply-template': () => [400, {}] });
    expect(await strict.asker.ask(strict.worker, 'm', CHAT, NEVER)).toBe('refused');
    const odd = await engine('llamacpp', { '/apply-template': () => [200, { text: 'x' }] });
    await expect(odd.asker.ask(odd.worker, 'm', CHAT, NEVER)).rejects.toThrow(
      'the engine\'s answer to POST /apply-template has no text "prompt"',
    );
  });
});

describe('any engine', () => {
  it('is asked only where its dialect has a way', async () => {
    const { worker, asker } = await engine('trtllm', {});
    expect(asker.canAsk(worker)).toBe(false);
    expect(await asker.ask(worker, 'm', PROMPT, NEVER)).toBe('unable');
    const simulated = { ...worker, spec: { ...worker.spec, dialect: 'sim' } };
    expect(asker.canAsk(simulated)).toBe(true);
  });

  it('is let go when the question ends early, and when it answers too much', async () => {
    const { worker, asker } = await engine('vllm', {
      '/v1/completions/render': () => [200, `[${'1,'.repeat(9 * 2 ** 20)}1]`],
    });
    await expect(asker.ask(worker, 'm', PROMPT, NEVER)).rejects.toThrow(
      'the answer is longer than 16777216 bytes',
    );
    const controller = new AbortController();
    controller.abort();
    await expect(asker.ask(worker, 'm', PROMPT, controller.signal)).rejects.toMatchObject({
      code: 'PM_ENGINE_UNREACHABLE',
    });
  });

  it('gives ids or an error of ours for whatever it answers', () => {
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), fc.record({ tokens: fc.jsonValue() })), (answer) => {
        try {
          const ids = idsOf(answer, 'tokens', '/tokenize');
          expect(Array.from(ids)).toEqual(Object(answer).tokens);
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(PointsmanError);
          expect(thrown).toMatchObject({ code: 'PM_ENGINE_FAILED' });
        }
      }),
      { numRuns: 500 },
    );
    expect(() => idsOf({ tokens: [1, -1] }, 'tokens', '/tokenize')).toThrow(
      "the engine's answer to POST /tokenize holds something else than a token id at tokens[1]",
    );
  });
});
