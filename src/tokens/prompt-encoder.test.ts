import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { loadTextTokenizer, type TextTokenizer } from './builtin/text-tokenizer.ts';
import { TINY_TOKENIZER } from './builtin/tiny-files.ts';
import { PromptEncoder } from './prompt-encoder.ts';
import { randomChat, randomOf } from './random-chats.fixtures.ts';
import { checkTokenizer } from './self-check.ts';
import { createTokenizerPool } from './tokenizer-pool.ts';
import type { ChatPrompt } from './types.ts';

const folder = mkdtempSync(join(tmpdir(), 'pointsman-encoder-'));
afterAll(() => rmSync(folder, { recursive: true }));

const tiny = loadTextTokenizer(TINY_TOKENIZER.tokenizer, TINY_TOKENIZER.template);
const FILES = { tokenizer: 'made.json', template: null };

function chat(messages: readonly unknown[], over: Partial<ChatPrompt> = {}): ChatPrompt {
  return {
    messages,
    tools: undefined,
    addGenerationPrompt: true,
    addSpecialTokens: false,
    variables: {},
    ...over,
  };
}

const ADDED = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };

/** A byte-level tokenizer over a few characters, changed as a test wants it. */
function made(name: string, over: Readonly<Record<string, unknown>>): TextTokenizer {
  const letters = 'abcdefghijklmnopqrstuvwxyz▁ABC .,!?<|>'.split('');
  const vocab = Object.fromEntries([...letters, '<unk>'].map((letter, id) => [letter, id]));
  const size = Object.keys(vocab).length;
  const model = {
    added_tokens: [
      { ...ADDED, id: size, content: '<s>' },
      { ...ADDED, id: size + 1, content: '</s>' },
    ],
    normalizer: null,
    pre_tokenizer: null,
    post_processor: null,
    decoder: null,
    model: { type: 'BPE', unk_token: '<unk>', fuse_unk: true, vocab, merges: [] },
    ...over,
  };
  const path = join(folder, `${name}.json`);
  writeFileSync(path, JSON.stringify(model));
  writeFileSync(join(folder, 'tokenizer_config.json'), '{}');
  return loadTextTokenizer(path, null);
}

const BOS = {
  type: 'TemplateProcessing',
  single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
  pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 1 } }],
  special_tokens: { '<s>': { id: '<s>', ids: [39], tokens: ['<s>'] } },
};

describe('a prompt encoder', () => {
  it('gives the ids of the whole prompt, whatever its cache has room for, and stays under its cap', () => {
    for (const cacheBytes of [0, 400, 3000, 1_000_000]) {
      const encoder = new PromptEncoder(tiny, cacheBytes);
      const random = randomOf(cacheBytes + 7);
      for (let made = 0; made < 150; made += 1) {
        const { messages, tools } = randomChat(random);
        for (let end = 1; end <= messages.length; end += 1) {
          const prompt = chat(messages.slice(0, end), { tools });
          const { ids, counts } = encoder.encodeChat(prompt);
          const text = tiny.renderChat(prompt.messages, { addGenerationPrompt: true, tools });
          expect(ids).toEqual(tiny.encode(text, false));
          expect(counts.cachedBytes).toBeLessThanOrEqual(cacheBytes);
        }
      }
    }
  });

  it('gives the ids of the whole for any text, given twice', () => {
    const encoder = new PromptEncoder(tiny, 100_000);
    const piece = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 20 }),
      fc.constantFrom('<|im_start|>', '<|im_end|>', '<|endoftext|>', '<|im_', '|>', ' ', '\n'),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), fc.boolean(), (pieces, special) => {
        const text = pieces.join('');
        const whole = tiny.encode(text, special);
        expect(encoder.encodePrompt(text, special, null).ids).toEqual(whole);
        expect(encoder.encodePrompt(text, special, null).ids).toEqual(whole);
      }),
      { numRuns: 500 },
    );
  });

  it('tells half a surrogate pair from the mark that stands for it', () => {
    const encoder = new PromptEncoder(tiny, 100_000);
    for (const text of ['a\ud83d b', 'a\ufffd b', 'a\ud83d b'])
      expect(encoder.encodePrompt(text, false, null).ids).toEqual(tiny.encode(text, false));
    expect(encoder.encodePrompt('a\ufffd b', false, null).counts.reused).toBe(1);
  });

  it('goes through only the new message in the second turn of a chat of 4,000 tokens', () => {
    const encoder = new PromptEncoder(tiny, 1_000_000);
    const random = randomOf(4);
    const text = (words: number): string =>
      Array.from({ length: words }, () => tiny.decode([Math.floor(random() * 256)])).join('');
    const first = [
      { role: 'system', content: text(1500) },
      { role: 'user', content: text(2500) },
    ];
    const turn1 = encoder.encodeChat(chat(first));
    expect(turn1.ids.length).toBeGreaterThan(4000);
    const answer = { role: 'assistant', content: text(60) };
    const question = { role: 'user', content: text(40) };
    const turn2 = encoder.encodeChat(chat([...first, answer, question]));
    // Each message is "role\n" and its content; the line feed between two messages was there before.
    const added = 'assistant\n'.length + answer.content.length + 'user\n'.length + question.content.length;
    expect(turn2.counts.encodedChars).toBe(added);
    expect(turn2.counts.pieces - turn2.counts.reused).toBe(2);
    expect(Array.from(turn2.ids.subarray(0, turn1.ids.length - 4))).toEqual(
      Array.from(turn1.ids.subarray(0, turn1.ids.length - 4)),
    );
  });

  it('shortens a prompt as a slice of its ids does, on either side', () => {
    const encoder = new PromptEncoder(tiny, 10_000);
    fc.assert(
      fc.property(
        fc.string({ maxLength: 60 }),
        fc.integer({ min: 1, max: 40 }),
        fc.constantFrom('left' as const, 'right' as const),
        (text, tokens, side) => {
          const whole = Array.from(tiny.encode(text, false));
          const left = side === 'left' ? whole.slice(-tokens) : whole.slice(0, tokens);
          expect(Array.from(encoder.encodePrompt(text, true, { tokens, side }).ids)).toEqual(left);
        },
      ),
    );
  });

  it('keeps the start token when it shortens, as tokenizers do, and counts it', () => {
    const tokenizer = made('bos', { post_processor: BOS });
    const encoder = new PromptEncoder(tokenizer, 10_000);
    const whole = Array.from(tokenizer.encode('abcdef', true));
    expect(whole).toEqual([39, 0, 1, 2, 3, 4, 5]);
    const ids = (tokens: number, side: 'left' | 'right', special = true): number[] =>
      Array.from(encoder.encodePrompt('abcdef', special, { tokens, side }).ids);
    expect(ids(3, 'left')).toEqual([39, 4, 5]);
    expect(ids(3, 'right')).toEqual([39, 0, 1]);
    expect(ids(1, 'left')).toEqual([39]);
    expect(ids(7, 'left')).toEqual(whole);
    expect(ids(3, 'left', false)).toEqual([3, 4, 5]);
  });

  it('ends a chat inside its last message where the engine is to continue it', () => {
    const encoder = new PromptEncoder(tiny, 10_000);
    const messages = [
      { role: 'user', content: 'Say it' },
      { role: 'assistant', content: 'It is ' },
    ];
    const { ids } = encoder.encodeChat(
      chat(messages, { addGenerationPrompt: false, continueFinalMessage: true }),
    );
    expect(tiny.decode(ids)).toBe('<|im_start|>user\nSay it<|im_end|>\n<|im_start|>assistant\nIt is ');
  });
});

describe('the self-check of pieces', () => {
  const verdict = (tokenizer: TextTokenizer): [string | null, boolean] => {
    const encoder = new PromptEncoder(tokenizer, 10_000);
    return [checkTokenizer(tokenizer, encoder, FILES), encoder.inPieces];
  };

  it('passes byte-level tokenizers, with and without a start token', () => {
    expect(verdict(tiny)).toEqual([null, true]);
    expect(verdict(made('bos-check', { post_processor: BOS }))).toEqual([null, true]);
  });

  it('finds a prefix space that only the first piece gets, and then encodes whole prompts rightly', () => {
    const tokenizer = made('metaspace', {
      pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: false },
    });
    const encoder = new PromptEncoder(tokenizer, 10_000);
    expect(checkTokenizer(tokenizer, encoder, FILES)).toBe(
      'gives other ids for the pieces between special tokens than for a whole prompt, so each is tokenized as a whole',
    );
    expect(encoder.inPieces).toBe(false);
    const text = 'ab<s>cd</s>ef';
    expect(encoder.encodePrompt(text, false, null).ids).toEqual(tokenizer.encode(text, false));
  });

  it('says when there is nothing to cut at', () => {
    const strips = { ...ADDED, lstrip: true };
    for (const added of [[], [{ ...strips, id: 39, content: '<s>' }]]) {
      expect(verdict(made('uncut', { added_tokens: added }))).toEqual([
        'has no special tokens to cut prompts at, so each is tokenized as a whole',
        false,
      ]);
    }
  });

  it('cuts at no token that takes blanks from its neighbours, and not inside a longer one', () => {
    const tokenizer = made('neighbours', {
      added_tokens: [
        { ...ADDED, id: 39, content: '<s>' },
        { ...ADDED, id: 40, content: 'x<s>', lstrip: true },
        { ...ADDED, id: 41, content: '<s>y', rstrip: true },
      ],
    });
    const encoder = new PromptEncoder(tokenizer, 10_000);
    expect(checkTokenizer(tokenizer, encoder, FILES)).toBe(null);
    for (const text of ['a <s> b', 'a x<s> b', 'a <s>y b<s>', '<s><s>y  x<s>', ' x<s>y <s>']) {
      for (let run = 0; run < 2; run += 1)
        expect(encoder.encodePrompt(text, false, null).ids).toEqual(tokenizer.encode(text, false));
    }
  });
});

describe('a pool of several threads', () => {
  it('sends the turns of a conversation to the thread that has their ids, and keeps to its cap', async () => {
    const cacheBytes = 60_000;
    const pool = createTokenizerPool({ ...TINY_TOKENIZER, threads: 2, cacheBytes });
    try {
      expect((await pool.start()).wholeBecause).toBe(null);
      const random = randomOf(11);
      let reused = 0;
      let pieces = 0;
      for (let made = 0; made < 12; made += 1) {
        const messages: unknown[] = [{ role: 'system', content: `conversation ${made} ${random()}` }];
        for (let turn = 0; turn < 4; turn += 1) {
          messages.push({ role: 'user', content: `question ${turn} ${random()}` });
          const answer = await pool.encodeChat(chat(messages));
          if ('notRendered' in answer) throw new Error(answer.notRendered);
          const text = tiny.renderChat(messages, { addGenerationPrompt: true });
          expect(answer.ids).toEqual(tiny.encode(text, false));
          if (turn > 0) {
            reused += answer.counts.reused;
            pieces += answer.counts.pieces;
          }
          messages.push({ role: 'assistant', content: `answer ${turn} ${random()}` });
        }
      }
      // New in each turn: an answer and a question.
      expect(pieces - reused).toBe(12 * 3 * 2);
      expect(pool.cachedBytes).toBeGreaterThan(0);
      expect(pool.cachedBytes).toBeLessThanOrEqual(cacheBytes);
    } finally {
      await pool.close();
    }
  });
});
