// Builds assets/tiny: a byte-level BPE tokenizer trained on the text below, and a chat template. The simulated engine and the
// router share them, so that the whole road runs without a model. The result is checked in; run this after changing the text.
//
// Ids 0 … WORDS-1 are whole words with their leading space, so that any sequence of them decodes to readable text that encodes
// to the same ids again: a simulated answer, sent back in the next turn, hits the blocks it left in the cache.
import { mkdirSync, writeFileSync } from 'node:fs';

const WORDS = 256;

const TEXT = `
The old station stands at the edge of a small town where three lines meet before they cross the river. Every morning a
woman with a green lamp walks along the platform, looks at the clock and listens. She knows each train by its sound long
before anyone can see it. When the first one comes down from the hills she pulls a lever, the points move with a heavy
click, and the wagons roll onto the right track. Nobody on board notices. That is how good work feels: quiet, quick and
almost invisible.

People often ask her what happens if two trains arrive at once. Then someone has to wait, she says, and it should be the
one that loses least by waiting. A freight train full of stone may stand an hour without harm. The mail cannot. A crowded
express goes through while the signal for everything else stays red. There is no perfect rule for this, only experience,
a good view over the whole yard and the will to decide without delay.

Some days are hard. Snow covers the rails, a switch freezes, or a message is lost between here and the next box. She keeps
notes in a book: which engine was late, which driver carries coal for two more trips, where empty wagons stand. From those
notes she can tell what might come next, even when the wire is silent. Memory saves time. A train that has already been
loaded need not be loaded again, so it pays to send new orders to the place where most of the goods lie. But if every
order went there, that yard would choke while others slept. So she weighs both: what is near, and who is free.

In the evening, after the last local has gone, the lamps burn low and a cat sits on the warm stove. Her son once wanted to
know why she never built a machine to do all of this. She laughed and showed him the levers, their worn handles and bright
brass numbers. This is the machine, she told him, and it does exactly as much as I ask. Give it better questions and you
will get better answers. Then she wrote down the day, closed the book, and left a light in the window for whoever might
follow.

Young clerks learn their trade by watching. They count blocks, copy tables, write short letters to distant offices, and
measure how long each thing takes. Later they try small changes: another path, a larger buffer, one more hand. Most ideas
fail, some help a little, and few become so common that we forget anybody had to invent them.
`;

// GPT-2's table from bytes to printable characters (github.com/openai/gpt-2, encoder.py, MIT).
function byteCharacters() {
  const printable = [];
  for (const [from, to] of [
    [33, 126],
    [161, 172],
    [174, 255],
  ]) {
    for (let byte = from; byte <= to; byte += 1) printable.push(byte);
  }
  const table = [];
  let next = 256;
  for (let byte = 0; byte < 256; byte += 1) {
    table[byte] = String.fromCodePoint(printable.includes(byte) ? byte : next++);
  }
  return table;
}

const table = byteCharacters();
const symbolsOf = (text) => Array.from(new TextEncoder().encode(text), (byte) => table[byte]);

const PIECES = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;
const text = TEXT.replaceAll(/\s+/g, ' ').trim();

const words = [];
for (const [word] of text.toLowerCase().matchAll(/\p{L}+/gu)) {
  if (word.length > 1 && word.length <= 8 && !words.includes(word)) words.push(word);
  if (words.length === WORDS) break;
}
if (words.length < WORDS) throw new Error(`the text has only ${words.length} different words`);

/** Each different piece with its symbols and how often it stands in the text; every word stands there at least once. */
const pieces = new Map();
const add = (piece) => {
  const known = pieces.get(piece);
  if (known) known.count += 1;
  else pieces.set(piece, { symbols: symbolsOf(piece), count: 1 });
};
for (const [piece] of text.matchAll(PIECES)) add(piece);
for (const word of words) add(` ${word}`);
for (const role of ['system', 'user', 'assistant', 'tool']) add(role);

function merge(symbols, left, right) {
  const merged = [];
  for (let i = 0; i < symbols.length; i += 1) {
    if (symbols[i] === left && symbols[i + 1] === right) {
      merged.push(left + right);
      i += 1;
    } else merged.push(symbols[i]);
  }
  return merged;
}

const merges = [];
const wanted = words.map((word) => pieces.get(` ${word}`));
while (wanted.some((piece) => piece.symbols.length > 1)) {
  const counts = new Map();
  for (const { symbols, count } of pieces.values()) {
    for (let i = 0; i + 1 < symbols.length; i += 1) {
      const pair = `${symbols[i]} ${symbols[i + 1]}`;
      counts.set(pair, (counts.get(pair) ?? 0) + count);
    }
  }
  let best = null;
  for (const [pair, count] of counts) {
    if (best === null || count > best.count || (count === best.count && pair < best.pair))
      best = { pair, count };
  }
  const [left, right] = best.pair.split(' ');
  merges.push([left, right]);
  for (const piece of pieces.values()) piece.symbols = merge(piece.symbols, left, right);
}

const vocabulary = new Map();
const enter = (token) => {
  if (!vocabulary.has(token)) vocabulary.set(token, vocabulary.size);
};
for (const piece of wanted) enter(piece.symbols[0]);
for (const character of table) enter(character);
for (const [left, right] of merges) enter(left + right);

const SPECIAL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'];
const tokenizer = {
  version: '1.0',
  truncation: null,
  padding: null,
  added_tokens: SPECIAL.map((content, i) => ({
    id: vocabulary.size + i,
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true,
  })),
  normalizer: null,
  pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
  post_processor: null,
  decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
  model: {
    type: 'BPE',
    dropout: null,
    unk_token: null,
    continuing_subword_prefix: null,
    end_of_word_suffix: null,
    fuse_unk: false,
    byte_fallback: false,
    ignore_merges: false,
    vocab: Object.fromEntries(vocabulary),
    merges: merges.map((pair) => pair.join(' ')),
  },
};

const TEMPLATE = `{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
`;

const folder = new URL('../assets/tiny/', import.meta.url);
mkdirSync(folder, { recursive: true });
writeFileSync(new URL('tokenizer.json', folder), `${JSON.stringify(tokenizer)}\n`);
writeFileSync(new URL('chat_template.jinja', folder), TEMPLATE);
console.log(`${words.length} words, ${merges.length} merges, ${vocabulary.size + SPECIAL.length} tokens`);
