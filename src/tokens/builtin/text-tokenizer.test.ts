import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { PointsmanError } from '../../plugin/index.ts';
import { loadTextTokenizer } from './text-tokenizer.ts';
import { TINY_TOKENIZER, TINY_WORDS } from './tiny-files.ts';

const tiny = loadTextTokenizer(TINY_TOKENIZER.tokenizer, TINY_TOKENIZER.template);
const folder = mkdtempSync(join(tmpdir(), 'pointsman-tokenizer-'));
afterAll(() => rmSync(folder, { recursive: true }));
const file = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
};
const codeOf = (attempt: () => unknown): string => {
  try {
    attempt();
  } catch (error) {
    if (error instanceof PointsmanError) return `${error.code} ${error.message}`;
  }
  return 'no PointsmanError';
};

describe('the built-in tokenizer', () => {
  it('brings back any text, in every script, control characters and special tokens included', () => {
    expect(tiny.encode('')).toEqual(new Uint32Array(0));
    const unit = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 60 }),
      fc.string({ unit: 'grapheme', maxLength: 60 }),
    );
    fc.assert(
      fc.property(unit, (text) => {
        expect(tiny.decode(tiny.encode(text))).toBe(text);
      }),
      { numRuns: 1000 },
    );
    const marked = '<|im_start|>user\nhello   world\r\n\t<|im_end|><|endoftext|>';
    expect(tiny.decode(tiny.encode(marked))).toBe(marked);
  });

  it('encodes a sequence of its words to itself, so that an answer sent back hits its own blocks', () => {
    const words = fc.array(fc.nat(TINY_WORDS - 1), { maxLength: 80 });
    fc.assert(
      fc.property(words, words, (prompt, answer) => {
        const user = { role: 'user', content: tiny.decode(prompt) };
        const asked = tiny.encode(tiny.renderChat([user], { addGenerationPrompt: true }), false);
        const reply = { role: 'assistant', content: tiny.decode(answer) };
        const again = tiny.encode(tiny.renderChat([user, reply, user], { addGenerationPrompt: true }), false);
        expect(Array.from(again.subarray(0, asked.length + answer.length))).toEqual([...asked, ...answer]);
      }),
    );
    for (let id = 0; id < TINY_WORDS; id += 1) expect(tiny.decode([id])).toMatch(/^ [a-z]+$/);
  });

  it('encodes each special token as one id behind all others', () => {
    expect(Array.from(tiny.encode('<|endoftext|><|im_start|><|im_end|>'))).toEqual([
      tiny.size - 3,
      tiny.size - 2,
      tiny.size - 1,
    ]);
  });

  it('gives nothing for ids it does not have', () => {
    expect(tiny.decode([0, 4_000_000_000, 0])).toBe(tiny.decode([0, 0]));
  });
});

describe('renderChat', () => {
  it('renders roles, text parts and absent content', () => {
    const messages = [
      { role: 'system', content: 'be brief' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'one ' },
          { type: 'text', text: 'two' },
        ],
      },
      { role: 'assistant', content: null, tool_calls: [] },
    ];
    expect(tiny.renderChat(messages, { addGenerationPrompt: true })).toBe(
      '<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\none two<|im_end|>\n' +
        '<|im_start|>assistant\n<|im_end|>\n<|im_start|>assistant\n',
    );
    expect(tiny.renderChat([{ role: 'user', content: 'x' }], { addGenerationPrompt: false })).toBe(
      '<|im_start|>user\nx<|im_end|>\n',
    );
  });

  it('says which message is wrong and how', () => {
    const render = (messages: unknown): string =>
      codeOf(() => tiny.renderChat(messages, { addGenerationPrompt: true }));
    expect(render('hi')).toBe('PM_CHAT_INVALID messages must be a list of at least one message');
    expect(render([])).toBe('PM_CHAT_INVALID messages must be a list of at least one message');
    expect(render([3])).toBe('PM_CHAT_INVALID messages[0] must be an object');
    expect(render([{ content: 'x' }])).toBe(
      'PM_CHAT_INVALID messages[0].role must be a string such as "user"',
    );
    expect(render([{ role: 'user', content: 3 }])).toBe(
      'PM_CHAT_INVALID messages[0].content must be a string or a list of parts',
    );
    expect(render([{ role: 'user', content: [{ type: 'image_url', image_url: {} }] }])).toBe(
      'PM_CHAT_INVALID messages[0].content[0] must be a text part; other kinds have no token ids here',
    );
    // The engine goes by the type: this is an image, whatever else it has.
    expect(
      render([{ role: 'user', content: [{ type: 'image_url', image_url: {}, text: 'a cat' }] }]),
    ).toMatch(/must be a text part/);
  });

  it('passes special tokens, empty where missing, tools and variables to the template', () => {
    const model = file('tokenizer.json', JSON.stringify({ ...tinyModel() }));
    file('tokenizer_config.json', JSON.stringify({ eos_token: { content: '<end>' }, bos_token: '<start>' }));
    const template = file(
      'template.jinja',
      '{{ bos_token + eos_token + pad_token }}|{{ tools | length }}|{{ thinking }}|{{ messages[0].content }}',
    );
    const tokenizer = loadTextTokenizer(model, template);
    expect(
      tokenizer.renderChat([{ role: 'user', content: 'x' }], {
        addGenerationPrompt: true,
        tools: [1, 2],
        variables: { thinking: 'off', messages: 'cannot replace' },
      }),
    ).toBe('<start><end>|2|off|x');
  });

  it('turns a refusal of the template, and a missing one, into an error', () => {
    const model = file('tokenizer.json', JSON.stringify({ ...tinyModel() }));
    file('tokenizer_config.json', '{}');
    const refusing = loadTextTokenizer(model, file('refuse.jinja', "{{ raise_exception('only one turn') }}"));
    const render = (of: typeof refusing): string =>
      codeOf(() => of.renderChat([{ role: 'user', content: 'x' }], { addGenerationPrompt: true }));
    expect(render(refusing)).toBe(
      'PM_CHAT_TEMPLATE the chat template cannot render these 1 messages: only one turn',
    );
    expect(render(loadTextTokenizer(model, null))).toBe(
      `PM_CHAT_TEMPLATE the tokenizer ${model} has no chat template; name one, or send completions`,
    );
  });
});

describe('loadTextTokenizer', () => {
  it('takes the template beside the tokenizer where none is named, the file before the one in the configuration', () => {
    const beside = mkdtempSync(join(folder, 'beside-'));
    const model = join(beside, 'tokenizer.json');
    const prompt = (): string =>
      loadTextTokenizer(model, null).renderChat([{ role: 'user', content: 'x' }], {
        addGenerationPrompt: true,
      });
    writeFileSync(model, JSON.stringify(tinyModel()));
    expect(loadTextTokenizer(model, null).hasTemplate).toBe(false);
    writeFileSync(join(beside, 'tokenizer_config.json'), JSON.stringify({ chat_template: 'configured' }));
    expect(prompt()).toBe('configured');
    writeFileSync(join(beside, 'chat_template.jinja'), 'a file of its own');
    expect(prompt()).toBe('a file of its own');
    expect(loadTextTokenizer(model, null).hasTemplate).toBe(true);
  });

  it('names the file that is missing or broken', () => {
    const load = (tokenizer: string, template: string | null): string =>
      codeOf(() => loadTextTokenizer(tokenizer, template));
    const absent = join(folder, 'absent.json');
    expect(load(absent, null)).toMatch(/^PM_TOKENIZER_INVALID .*absent\.json cannot be read: no such file$/);
    expect(load(file('text.json', 'no json'), null)).toMatch(/text\.json is not JSON \(/);
    expect(load(file('list.json', '[]'), null)).toMatch(/list\.json must hold a JSON object$/);
    expect(load(file('empty.json', '{}'), null)).toMatch(
      /empty\.json is no tokenizer\.json this build reads \(/,
    );
    expect(load(TINY_TOKENIZER.tokenizer, file('bad.jinja', '{% if %}'))).toMatch(
      /bad\.jinja holds no chat template that parses \(/,
    );
  });
});

function tinyModel(): object {
  return {
    added_tokens: [],
    normalizer: null,
    pre_tokenizer: null,
    post_processor: null,
    decoder: null,
    model: { type: 'BPE', vocab: { a: 0 }, merges: [] },
  };
}
