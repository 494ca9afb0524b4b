// Random chats that are hard on tokenizers: many scripts, emoji of several code points, combining marks, tabs, code, special tokens
// and halves of them, tools. The same seed gives the same chats everywhere.

/** Pieces that contents are put together from. */
const PIECES = [
  'The quick brown fox jumps over the lazy dog. ',
  "I don't think they'll say it's y'all's; we've 'S said so.",
  'déjà vu, naïve café — “quotes” … ',
  'e\u0301\u0323a\u0308\u0330 o\u031b\u0301 ',
  '\u0301\u0302 starts with marks ',
  '早上好，今天的天气怎么样？',
  'お元気ですか。カタカナ ',
  '안녕하세요 세계 ',
  'नमस्ते दुनिया क्षत्रिय ',
  'مرحبا بالعالم ١٢٣ ',
  'שלום עולם ',
  'Привет, мир! ',
  'สวัสดีชาวโลก ',
  'Γειά σου Κόσμε ',
  '👩‍🚀👨‍👩‍👧‍👦🏳️‍🌈👍🏽 ',
  '🇫🇷🇯🇵 ☕️ ',
  '\u{1F600}\u{1F600}\u{1F600}',
  '\t\tif (x) {\n\t\t\treturn [1, 2, 3];\n\t\t}\n',
  'def f(a: int) -> str:\n    return f"{a!r}"\n\n\n',
  '{"key": [1, 2.5e-3, null, true], "nested": {"a": "b\\n"}}',
  "SELECT * FROM t WHERE x >= 10 AND y <> 'z'; -- comment\r\n",
  '<div class="a">&nbsp;</div>',
  '1234567890 3.14159 0x1F 1,000,000 ',
  '     many     spaces     ',
  '\n\n\n\n',
  '\r\n\r\n',
  '\u00a0\u2003\u200b\ufeff ',
  'ﬁﬂ Å Å ① ㎏ ',
  'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',
  'https://example.com/a?b=c&d=%20#frag ',
  '<|im_start|>',
  '<|im_end|>',
  '<|eot_id|>',
  '<|start_header_id|>user<|end_header_id|>',
  '<|endoftext|>',
  '<|im_st',
  'art|>',
  '<|',
  '|>',
  '<think>',
  '</think>',
  '<tool_call>\n{"name": "x"}\n</tool_call>',
  '\ud83d',
  '\udc00',
  '\u0000\u0007\u001b[0m',
  '$\\int_0^1 x^2\\,dx = \\frac{1}{3}$ ',
] as const;

const TOOLS = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      description: 'Wetter für eine Stadt — 天気 ☀️',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  },
  {
    type: 'function',
    function: {
      name: 'run',
      description: 'Runs <|im_end|> code',
      parameters: { type: 'object', properties: {} },
    },
  },
] as const;

/** One message of a random chat. */
export type RandomMessage = Readonly<Record<string, unknown>> & { readonly role: string };

/** A random chat; its turns are its beginnings that end with a user's or a tool's message. */
export interface RandomChat {
  readonly messages: readonly RandomMessage[];
  readonly tools: readonly unknown[] | undefined;
}

/** Numbers from 0 (inclusive) to 1 (exclusive): mulberry32. */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A chat of 1 to 8 messages after the system prompt. */
export function randomChat(random: () => number): RandomChat {
  const below = (n: number): number => Math.floor(random() * n);
  const text = (): string => {
    let made = '';
    for (let left = 1 + below(6); left > 0; left -= 1) {
      const piece = PIECES[below(PIECES.length)] ?? '';
      // Now and then a part of one, so that pieces meet at every place.
      made += below(4) === 0 ? piece.slice(below(piece.length)) : piece;
    }
    return made;
  };
  const content = (): unknown =>
    below(5) === 0
      ? [
          { type: 'text', text: text() },
          { type: 'text', text: text() },
        ]
      : text();
  const messages: RandomMessage[] = below(3) === 0 ? [] : [{ role: 'system', content: text() }];
  const hasTools = below(4) === 0;
  for (let turns = 1 + below(4); turns > 0; turns -= 1) {
    messages.push({ role: 'user', content: content() });
    if (turns === 1 && below(2) === 0) break;
    if (hasTools && below(2) === 0) {
      const call = {
        id: 'call_1',
        type: 'function',
        function: { name: 'run', arguments: '{"code": "1 + 1 → 2"}' },
      };
      messages.push({ role: 'assistant', content: '', tool_calls: [call] });
      messages.push({ role: 'tool', tool_call_id: 'call_1', content: text() });
    }
    messages.push({ role: 'assistant', content: text() });
  }
  return { messages, tools: hasTools ? TOOLS : undefined };
}
