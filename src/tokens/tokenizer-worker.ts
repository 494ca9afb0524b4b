// The code of a tokenizer thread: one model, loaded at the first task.
import { workerData } from 'node:worker_threads';
import { move } from 'piscina';
import { PointsmanError } from '../plugin/index.ts';
import { loadTextTokenizer, type TextTokenizer } from './builtin/text-tokenizer.ts';
import { checkTokenizer } from './self-check.ts';
import type { TokenizerAnswer, TokenizerFiles, TokenizerTask } from './tokenizer-task.ts';

// The pool passes exactly this value.
const files = workerData as TokenizerFiles;
let loaded: TextTokenizer | null = null;

/** Runs one task; never throws. */
export default function run(task: TokenizerTask): TokenizerAnswer | ReturnType<typeof move> {
  try {
    loaded ??= loadTextTokenizer(files.tokenizer, files.template);
    if (task.kind === 'check') {
      checkTokenizer(loaded, files);
      return null;
    }
    return move(
      task.kind === 'prompt' ? loaded.encode(task.text, task.addSpecialTokens) : encodeChat(loaded, task),
    );
  } catch (thrown) {
    return thrown instanceof PointsmanError
      ? { code: thrown.code, message: thrown.message }
      : { code: 'PM_TOKENIZER_FAILED', message: `the tokenizer failed (${kindOf(thrown)})` };
  }
}

/** What was thrown may quote the prompt, so only its kind leaves the thread. */
function kindOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.name : typeof thrown;
}

function encodeChat(
  tokenizer: TextTokenizer,
  { chat }: Extract<TokenizerTask, { kind: 'chat' }>,
): Uint32Array {
  const text = tokenizer.renderChat(chat.messages, {
    addGenerationPrompt: chat.addGenerationPrompt,
    variables: chat.variables,
    ...(chat.tools === undefined ? {} : { tools: chat.tools }),
  });
  return tokenizer.encode(text, chat.addSpecialTokens);
}
