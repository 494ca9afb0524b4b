// A tokenizer is tried before it is trusted: a broken file shows at start, not at the first request.
import { PointsmanError } from '../plugin/index.ts';
import type { TextTokenizer } from './builtin/text-tokenizer.ts';
import type { TokenizerFiles } from './tokenizer-task.ts';

/** Latin, accents, a script without spaces, an emoji of several code points, code. */
const SAMPLE = 'The quick brown fox, déjà vu, 早上好, 👩‍🚀 { "x": [1, 2] }\n';

/**
 * Encodes and renders a sample.
 * @throws PointsmanError PM_TOKENIZER_INVALID when nothing comes out, two runs differ, or the named template cannot render a
 *   plain user message.
 */
export function checkTokenizer(tokenizer: TextTokenizer, files: TokenizerFiles): void {
  const first = tokenizer.encode(SAMPLE, false);
  if (first.length === 0) throw invalid(files.tokenizer, 'gives no token ids for a sample text');
  const second = tokenizer.encode(SAMPLE, false);
  if (first.length !== second.length || first.some((id, index) => id !== second[index])) {
    throw invalid(files.tokenizer, 'gives different token ids for the same text');
  }
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

function invalid(file: string, problem: string): PointsmanError {
  return new PointsmanError('PM_TOKENIZER_INVALID', `${file} ${problem}`, { details: { file } });
}
