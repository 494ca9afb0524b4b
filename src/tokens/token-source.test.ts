import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import type { TokensSetting } from '../config/index.ts';
import { type MetricLabels, type Metrics, NO_METRICS } from '../observe/index.ts';
import { ManualClock } from '../plugin/index.ts';
import { loadTextTokenizer } from './builtin/text-tokenizer.ts';
import { TINY_TOKENIZER } from './builtin/tiny-files.ts';
import { estimateChatTokens, estimateTokens } from './estimate.ts';
import { readPromptIds } from './prompt-ids.ts';
import { createTokenSource } from './token-source.ts';
import { createTokenizerPool } from './tokenizer-pool.ts';
import type { ChatPrompt, TokenSource } from './types.ts';

const folder = mkdtempSync(join(tmpdir(), 'pointsman-tokens-'));
const open: { close(): Promise<void> }[] = [];
afterAll(async () => {
  for (const source of open) await source.close();
  rmSync(folder, { recursive: true });
});

function source(setting: TokensSetting, max = 1000, metrics: Metrics = NO_METRICS): TokenSource {
  const created = createTokenSource({
    model: 'tiny',
    setting,
    maxPromptTokens: () => max,
    metrics,
    clock: new ManualClock(),
  });
  open.push(created);
  return created;
}

function chat(messages: readonly unknown[]): ChatPrompt {
  return { messages, tools: undefined, addGenerationPrompt: true, addSpecialTokens: false, variables: {} };
}

const LOCAL: TokensSetting = { source: 'local', ...TINY_TOKENIZER };
const tiny = loadTextTokenizer(TINY_TOKENIZER.tokenizer, TINY_TOKENIZER.template);

describe('a local token source', () => {
  it('says that a model has no chat template, since its chats are estimated', async () => {
    const tokenizer = join(folder, 'tokenizer.json');
    copyFileSync(TINY_TOKENIZER.tokenizer, tokenizer);
    const bare = source({ source: 'local', tokenizer, template: null });
    await bare.start();
    expect(bare.notes).toEqual([
      'has no chat template, so none of its chats is matched with what engines have cached: name the template of the engine under tokens.template, or use tokens: { source: engine }',
    ]);
    const words = [{ role: 'user', content: 'hello' }];
    expect(await bare.encodeChat(chat(words))).toMatchObject({ source: 'estimate', estimated: 'template' });
  });

  const local = source(LOCAL);

  it('gives the ids of the synchronous tokenizer, from another thread', async () => {
    await local.start();
    const text = 'hello world, déjà vu 👩‍🚀';
    expect(await local.encodePrompt(text, true)).toEqual({
      tokens: tiny.encode(text, true),
      source: 'local',
    });
    const messages = [{ role: 'user', content: [{ type: 'text', text }] }];
    expect(await local.encodeChat(chat(messages))).toEqual({
      tokens: tiny.encode(tiny.renderChat(messages, { addGenerationPrompt: true }), false),
      source: 'local',
    });
  });

  it('answers many prompts at once, each with its own ids', async () => {
    const texts = Array.from({ length: 50 }, (_, index) => `prompt number ${index} ${'x '.repeat(index)}`);
    const answers = await Promise.all(texts.map((text) => local.encodePrompt(text, true)));
    expect(answers.map((answer) => answer.tokens)).toEqual(texts.map((text) => tiny.encode(text, true)));
  });

  it('takes given ids as they are', async () => {
    expect(await local.encodePrompt([5, 4294967295], true)).toEqual({
      tokens: Uint32Array.of(5, 4294967295),
      source: 'given',
    });
  });

  it('refuses an empty prompt and one over the cap', async () => {
    const empty = 'the prompt is empty; it must hold at least one token';
    await expect(local.encodePrompt('', true)).rejects.toThrow(empty);
    await expect(local.encodePrompt([], true)).rejects.toThrow(empty);
    const short = source(LOCAL, 3);
    const message = 'the prompt has 4 tokens, but at most 3 are accepted (limits.prompt_tokens)';
    await expect(short.encodePrompt([1, 2, 3, 4], true)).rejects.toThrow(message);
    await expect(short.encodePrompt(tiny.decode([1, 2, 3, 4]), false)).rejects.toThrow(message);
    await expect(short.encodeChat(chat([{ role: 'user', content: 'x' }]))).rejects.toMatchObject({
      code: 'PM_PROMPT_TOO_LONG',
    });
  });

  it('routes a chat by an estimate when the template refuses it or it holds more than text, and counts why', async () => {
    const template = join(folder, 'refuse.jinja');
    writeFileSync(
      template,
      "{% if messages | length > 1 %}{{ raise_exception('one turn') }}{% endif %}{{ messages[0].content }}",
    );
    const counts: MetricLabels[] = [];
    const metrics: Metrics = { ...NO_METRICS, count: (_name, labels = {}) => counts.push(labels) };
    const strict = source({ source: 'local', tokenizer: TINY_TOKENIZER.tokenizer, template }, 1000, metrics);
    await strict.start();
    const two = [
      { role: 'user', content: 'abcd' },
      { role: 'user', content: 'abcd' },
    ];
    expect(await strict.encodeChat(chat(two))).toEqual({
      tokens: new Uint32Array(4),
      source: 'estimate',
      estimated: 'template',
    });
    const image = [{ role: 'user', content: [{ type: 'image_url', image_url: {} }] }];
    expect(await strict.encodeChat(chat(image))).toMatchObject({ source: 'estimate', estimated: 'content' });
    expect(counts).toEqual([
      { model: 'tiny', reason: 'template' },
      { model: 'tiny', reason: 'content' },
    ]);
  });

  it('does not start with a file that is missing or a template that drops the text', async () => {
    const absent = join(folder, 'absent.json');
    await expect(
      source({ source: 'local', tokenizer: absent, template: null }).start(),
    ).rejects.toMatchObject({
      code: 'PM_TOKENIZER_INVALID',
      message: expect.stringContaining('absent.json'),
    });
    const template = join(folder, 'drop.jinja');
    writeFileSync(template, 'nothing');
    await expect(
      source({ source: 'local', tokenizer: TINY_TOKENIZER.tokenizer, template }).start(),
    ).rejects.toThrow(`${template} leaves the text of a user message out`);
  });
});

describe('a tokenizer pool', () => {
  it('refuses what does not fit into its queue and serves the rest', async () => {
    const pool = createTokenizerPool({ ...TINY_TOKENIZER, threads: 1, maxQueue: 2 });
    open.push(pool);
    await pool.start();
    const answers = await Promise.allSettled(
      Array.from({ length: 8 }, () => pool.encodePrompt('hello '.repeat(2000), true)),
    );
    const refused = answers.filter((answer) => answer.status === 'rejected');
    expect(refused.length).toBeGreaterThan(0);
    expect(answers.length - refused.length).toBeGreaterThanOrEqual(2);
    for (const answer of refused)
      expect(answer.reason).toMatchObject({ code: 'PM_TOKENIZER_BUSY', status: 429 });
  });
});

describe('an estimate', () => {
  it('stands in for the length at four bytes per token and never refuses', async () => {
    const estimated = source({ source: 'estimate' }, 10);
    await estimated.start();
    expect(await estimated.encodePrompt('déjà', true)).toEqual({
      tokens: new Uint32Array(2),
      source: 'estimate',
      estimated: 'source',
    });
    expect((await estimated.encodePrompt('x'.repeat(1000), true)).tokens.length).toBe(10);
    expect((await estimated.encodeChat(chat([{ role: 'user', content: 'abcd' }]))).tokens.length).toBe(2);
  });

  it('is at least one token and grows with the text', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (a, b) => {
        expect(estimateTokens(a)).toBeGreaterThanOrEqual(1);
        expect(estimateTokens(a + b)).toBeGreaterThanOrEqual(estimateTokens(a));
      }),
    );
    fc.assert(fc.property(fc.array(fc.jsonValue()), (any) => void estimateChatTokens(any)));
  });
});

describe('the engine token source', () => {
  it('says that nobody can be asked where there are no workers, and what to use', () => {
    expect(() => source({ source: 'engine', timeoutMs: 1000, concurrency: 1 })).toThrow(
      'token source "engine" of model tiny needs workers to ask, and there are none here; use local with a tokenizer.json, or estimate',
    );
  });
});

describe('readPromptIds', () => {
  it('keeps every u32', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(0xffffffff)), (ids) => {
        expect(Array.from(readPromptIds(ids, 'prompt'))).toEqual(ids);
      }),
    );
  });

  it.each([
    [-1, '-1'],
    [4294967296, '4294967296'],
    [1.5, '1.5'],
    [18446744073709551615n, '18446744073709551615'],
    [Number.NaN, 'NaN'],
    ['secret', 'a string'],
    [null, 'a null'],
    [[1], 'a list'],
  ])('refuses %s by position', (bad, found) => {
    expect(() => readPromptIds([1, 2, bad], 'prompt')).toThrow(
      `prompt[2] must be a token id, an integer from 0 to 4294967295; it is ${found}`,
    );
  });
});
