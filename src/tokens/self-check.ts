// A tokenizer is tried before it is trusted: a broken file shows at start, not at the first request, and so does one whose ids
// depend on more than the piece between two special tokens.
import { PointsmanError } from '../plugin/index.ts';
import type { TextTokenizer } from './builtin/text-tokenizer.ts';
import { isGguf } from './node-llama.ts';
import type { PromptEncoder } from './prompt-encoder.ts';
import type { TokenizerFiles } from './tokenizer-task.ts';

/** Latin, accents, a script without spaces, an emoji of several code points, code. */
const SAMPLE = 'The quick brown fox, déjà vu, 早上好, 👩‍🚀 { "x": [1, 2] }\n';

/** What stands between special tokens in the samples: what normalisers change, what pre-tokenizers look beyond, blank ends. */
const BETWEEN = [
  'user\n',
  SAMPLE,
  'hello',
  ' hello ',
  '  two  spaces  ',
  '\n',
  '\n\n\n',
  '\t\ttabs\t',
  '1234567890',
  "don't",
  'e\u0301\u0323 combining',
  '\u0301starts with a mark',
  'ﬁ ligature Å ①',
  'UPPER lower',
  '<|half',
  '|>',
  '👩‍🚀👨‍👩‍👧',
  'नमस्ते مرحبا שלום',
  '',
];
/** Most special tokens that are tried. */
const MOST_TOKENS = 12;

/**
 * Encodes and renders a sample, and holds pieces against the whole.
 * @returns why prompts are encoded as a whole, in a sentence that follows a model's name; null = they are encoded in pieces, or never
 *   are for tokenizers of this kind.
 * @throws PointsmanError PM_TOKENIZER_INVALID when nothing comes out, two runs differ, or the named template cannot render a
 *   plain user message.
 */
export function checkTokenizer(
  tokenizer: TextTokenizer,
  encoder: PromptEncoder,
  files: TokenizerFiles,
): string | null {
  const first = tokenizer.encode(SAMPLE, false);
  if (first.length === 0) throw invalid(files.tokenizer, 'gives no token ids for a sample text');
  if (differ(first, tokenizer.encode(SAMPLE, false))) {
    throw invalid(files.tokenizer, 'gives different token ids for the same text');
  }
  checkTemplate(tokenizer, files);
  return checkPieces(tokenizer, encoder, files);
}

function checkTemplate(tokenizer: TextTokenizer, files: TokenizerFiles): void {
  // A model without a template serves completions; its chats are routed by an estimate.
  if (files.template === null) return;
  try {
    const text = tokenizer.renderChat([{ role: 'user', content: 'ping' }], { addGenerationPrompt: true });
    if (text.includes('ping')) return;
  } catch (thrown) {
    if (!(thrown instanceof PointsmanError)) throw thrown;
    throw invalid(files.template, `cannot render a plain user message (${thrown.message})`);
  }
  throw invalid(files.template, 'leaves the text of a user message out');
}

function checkPieces(tokenizer: TextTokenizer, encoder: PromptEncoder, files: TokenizerFiles): string | null {
  // Tokenizers of GGUF models never cut: whoever runs one can do nothing about it.
  if (!encoder.canCut && isGguf(files.tokenizer)) return null;
  if (!encoder.canCut) return 'has no special tokens to cut prompts at, so each is tokenized as a whole';
  for (const text of samplesOf(tokenizer)) {
    for (const addSpecialTokens of [false, true]) {
      const whole = tokenizer.encode(text, addSpecialTokens);
      // Twice: once into the cache, once out of it.
      for (let run = 0; run < 2; run += 1) {
        if (!differ(whole, encoder.encodePrompt(text, addSpecialTokens, null).ids)) continue;
        encoder.encodeWhole();
        return 'gives other ids for the pieces between special tokens than for a whole prompt, so each is tokenized as a whole';
      }
    }
  }
  return null;
}

/** Each piece before and after each token, and all of them in one text. */
function samplesOf(tokenizer: TextTokenizer): string[] {
  const tokens = tokenizer.addedTokens
    .filter(({ isExact }) => isExact)
    .slice(0, MOST_TOKENS)
    .map(({ content }) => content);
  const each = tokens.map((token) => BETWEEN.join(token));
  const turns = BETWEEN.map((piece, index) => {
    const token = tokens[index % tokens.length] ?? '';
    return `${token}${piece}${token}${token}${piece}`;
  });
  return [...each, turns.join(''), ...BETWEEN.filter((piece) => piece !== '')];
}

function differ(a: Uint32Array, b: Uint32Array): boolean {
  return a.length !== b.length || a.some((id, index) => id !== b[index]);
}

function invalid(file: string, problem: string): PointsmanError {
  return new PointsmanError('PM_TOKENIZER_INVALID', `${file} ${problem}`, { details: { file } });
}
