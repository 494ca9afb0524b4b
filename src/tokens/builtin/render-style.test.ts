import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { PointsmanError } from '../../plugin/index.ts';
import { anthropicChat } from './anthropic-chat.ts';
import { continuedText } from './continued-message.ts';
import { iteratesContent, type RenderStyle } from './render-style.ts';
import { loadTextTokenizer } from './text-tokenizer.ts';
import { TINY_TOKENIZER } from './tiny-files.ts';

const folder = mkdtempSync(join(tmpdir(), 'pointsman-render-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Writes all that it sees. */
const STRINGS =
  '{% for message in messages %}[{{ message.role }}|{{ message.content }}' +
  '{% if message.reasoning_content %}|thinks {{ message.reasoning_content }}{% endif %}' +
  '{% if message.tool_calls %}{% for call in message.tool_calls %}|calls {{ call.function.name }} {{ call.function.arguments | tojson }}{% endfor %}{% endif %}]' +
  '{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}';
const PARTS =
  '{% for message in messages %}[{{ message.role }}{% if message.content is string %}:{{ message.content }}{% else %}' +
  '{% for part in message.content %}|{{ part.text }}{% endfor %}{% endif %}]{% endfor %}';

function render(style: RenderStyle, template: string, messages: unknown, tools?: unknown): string {
  const path = join(folder, 'template.jinja');
  writeFileSync(path, template);
  return loadTextTokenizer(TINY_TOKENIZER.tokenizer, path, style).renderChat(messages, {
    addGenerationPrompt: false,
    ...(tools === undefined ? {} : { tools }),
  });
}

const PARTED = [
  {
    role: 'user',
    content: [
      { type: 'text', text: 'one' },
      { type: 'text', text: 'two' },
    ],
  },
];
const CALLED = [
  { role: 'user', content: 'go' },
  {
    role: 'assistant',
    content: null,
    reasoning: 'hm',
    tool_calls: [
      { id: 'c', type: 'function', function: { name: 'f', arguments: '{"a": 9007199254740993, "é": 1}' } },
    ],
  },
];
const TOOLS = [{ function: { parameters: { type: 'object' }, name: 'f' }, type: 'function' }];

describe('the ways of engines', () => {
  it.each<[RenderStyle, string]>([
    ['plain', '[user|onetwo]'],
    ['vllm', '[user|one\ntwo]'],
    ['sglang', '[user|one two]'],
    ['llamacpp', '[user|one\ntwo]'],
  ])('put the parts of a message together: %s', (style, text) => {
    expect(render(style, STRINGS, PARTED)).toBe(text);
  });

  it('hand lists to templates that walk over parts', () => {
    expect([iteratesContent(STRINGS), iteratesContent(PARTS)]).toEqual([false, true]);
    const messages = [...PARTED, { role: 'user', content: 'three' }];
    expect(render('plain', PARTS, messages)).toBe('[user:onetwo][user:three]');
    expect(render('vllm', PARTS, messages)).toBe('[user|one|two][user|three]');
    expect(render('sglang', PARTS, messages)).toBe('[user|one|two][user:three]');
  });

  it('parse the arguments of tool calls, which templates write as JSON again', () => {
    expect(render('plain', STRINGS, CALLED)).toContain('calls f "{');
    expect(
      render('sglang', STRINGS, [
        CALLED[0],
        { role: 'assistant', content: '', tool_calls: [{ function: { name: 'f' } }] },
      ]),
    ).toBe('[user|go][assistant||calls f {}]');
    const broken = [
      { role: 'assistant', content: '', tool_calls: [{ function: { name: 'f', arguments: 'secret' } }] },
    ];
    expect(() => render('vllm', STRINGS, broken)).toThrow(
      'the chat template cannot render these 1 messages: the arguments of a tool call are not JSON',
    );
  });

  it('give templates thinking by both names, and tools in the order of their type', () => {
    const called = [CALLED[0], { ...CALLED[1], tool_calls: undefined }];
    expect(render('vllm', STRINGS, called)).toBe('[user|go][assistant||thinks hm]');
    expect(render('vllm', STRINGS, PARTED, TOOLS)).toContain(
      '[{"type": "function", "function": {"name": "f", "description": null, "parameters": {"type": "object"}}}]',
    );
    expect(render('sglang', STRINGS, PARTED, TOOLS)).toContain(
      '[{"description": null, "name": "f", "parameters": {"type": "object"}, "strict": false}]',
    );
    expect(render('llamacpp', STRINGS, PARTED, TOOLS)).toContain('[{"function": {"parameters"');
  });
});

describe('a message that is continued', () => {
  it('ends the text, with the blanks at its end where the template kept them', () => {
    expect(continuedText('<a>  Say: <end>\n', ' Say: ')).toBe('<a>  Say: ');
    expect(continuedText('<a>Say:<end>\n', ' Say: ')).toBe('<a>Say:');
    expect(continuedText('x x<end>', 'x')).toBe('x x');
    expect(() => continuedText('nothing', 'text')).toThrow(
      'which is to be continued, is not in what it renders',
    );
  });
});

describe('an Anthropic request', () => {
  const request = {
    system: [
      { type: 'text', text: 'Be ' },
      { type: 'text', text: 'brief.', cache_control: { type: 'ephemeral' } },
    ],
    tools: [{ name: 'f', description: 'does f', input_schema: { type: 'object' } }],
    messages: [
      { role: 'user', content: 'go' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm', signature: 's' },
          { type: 'redacted_thinking', data: 'x' },
          { type: 'text', text: 'I call.' },
          { type: 'tool_use', id: 'c', name: 'f', input: { a: 1 } },
        ],
      },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 'c',
            content: [
              { type: 'text', text: 'r1' },
              { type: 'text', text: 'r2' },
            ],
          },
          { type: 'text', text: 'and now?' },
        ],
      },
    ],
  };

  it('becomes the chat that the server renders: results before the text of their turn, thinking beside its message', () => {
    const { messages, tools } = anthropicChat(request);
    expect(render('vllm', STRINGS, messages, tools)).toBe(
      '[system|Be brief.][user|go][assistant|I call.|thinks hm|calls f {"a": 1}][tool|r1\nr2][user|and now?]' +
        '[{"type": "function", "function": {"name": "f", "description": "does f", "parameters": {"type": "object"}}}]',
    );
  });

  it('leaves out a message that held results alone, and keeps one that only thinks', () => {
    const only = [
      request.messages[0],
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c' }] },
    ];
    expect(anthropicChat({ messages: only }).messages.map(({ role }) => role)).toEqual(['user', 'tool']);
    const thinks = [{ role: 'assistant', content: [{ type: 'thinking', thinking: 'hm' }] }];
    expect(anthropicChat({ messages: thinks }).messages).toEqual([{ role: 'assistant', reasoning: 'hm' }]);
  });

  it('is refused by place where it is malformed, and images end as content that has no ids', () => {
    const chat = (body: Record<string, unknown>): string => {
      try {
        anthropicChat(body);
      } catch (error) {
        if (error instanceof PointsmanError) return `${error.code} ${error.message}`;
      }
      return 'no PointsmanError';
    };
    expect(chat({ messages: [] })).toBe('PM_CHAT_INVALID messages must be a list of at least one message');
    expect(chat({ messages: [{ role: 'tool', content: 'x' }] })).toBe(
      'PM_CHAT_INVALID messages[0].role must be "user" or "assistant"',
    );
    expect(chat({ messages: [{ role: 'user', content: [3] }] })).toBe(
      'PM_CHAT_INVALID messages[0].content[0] must be an object',
    );
    const image = anthropicChat({ messages: [{ role: 'user', content: [{ type: 'image', source: {} }] }] });
    expect(() => render('vllm', STRINGS, image.messages)).toThrow('must be a text part');
  });

  it('ends as a chat or an error of ours, whatever it is', () => {
    const block = fc.record(
      {
        type: fc.constantFrom('text', 'thinking', 'tool_use', 'tool_result', 'image', 'odd'),
        text: fc.jsonValue(),
        thinking: fc.jsonValue(),
        content: fc.jsonValue(),
        input: fc.jsonValue(),
      },
      { requiredKeys: [] },
    );
    const message = fc.record({
      role: fc.constantFrom('user', 'assistant', 'odd'),
      content: fc.oneof(fc.jsonValue(), fc.array(block)),
    });
    const body = fc.record({
      messages: fc.oneof(fc.jsonValue(), fc.array(message)),
      system: fc.jsonValue(),
      tools: fc.jsonValue(),
    });
    fc.assert(
      fc.property(body, (made) => {
        try {
          expect(anthropicChat(made).messages).toBeInstanceOf(Array);
        } catch (error) {
          expect(error).toBeInstanceOf(PointsmanError);
        }
      }),
      { numRuns: 500 },
    );
  });
});
