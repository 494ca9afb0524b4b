// The code of a tokenizer thread: one model, loaded at the first task.
import { workerData } from 'node:worker_threads';
import { move, transferableSymbol, valueSymbol } from 'piscina';
import { PointsmanError } from '../plugin/index.ts';
import { loadTextTokenizer, type TextTokenizer } from './builtin/text-tokenizer.ts';
import { type EncodedPrompt, PromptEncoder } from './prompt-encoder.ts';
import { checkTokenizer } from './self-check.ts';
import type { TokenizerAnswer, TokenizerTask, TokenizerThreadData } from './tokenizer-task.ts';

// The pool passes exactly this value.
const data = workerData as TokenizerThreadData;
let loaded: { readonly tokenizer: TextTokenizer; readonly encoder: PromptEncoder } | null = null;

/** Runs one task; never throws. */
export default function run(task: TokenizerTask): TokenizerAnswer | ReturnType<typeof move> {
  try {
    loaded ??= load();
    const { tokenizer, encoder } = loaded;
    switch (task.kind) {
      case 'check':
        return {
          kind: 'checked',
          wholeBecause: checkTokenizer(tokenizer, encoder, data),
          facts: {
            size: tokenizer.size,
            specialIds: new Set(tokenizer.addedTokens.filter((token) => token.isSpecial).map(({ id }) => id)),
          },
        };
      case 'prompt':
        return moved(encoder.encodePrompt(task.text, task.addSpecialTokens, task.truncation));
      case 'chat':
        return moved(encoder.encodeChat(task.chat));
    }
  } catch (thrown) {
    return thrown instanceof PointsmanError
      ? { kind: 'failed', code: thrown.code, message: thrown.message }
      : { kind: 'failed', code: 'PM_TOKENIZER_FAILED', message: `the tokenizer failed (${kindOf(thrown)})` };
  }
}

function load(): { readonly tokenizer: TextTokenizer; readonly encoder: PromptEncoder } {
  const tokenizer = loadTextTokenizer(data.tokenizer, data.template, data.style);
  return { tokenizer, encoder: new PromptEncoder(tokenizer, data.cacheBytes) };
}

function moved({ ids, counts }: EncodedPrompt): ReturnType<typeof move> {
  // A kept array must stay here, and a cut one must not take the rest of its memory along.
  const own = ids.slice();
  const answer: TokenizerAnswer = { kind: 'ids', ids: own, counts };
  return move({ [transferableSymbol]: [own.buffer], [valueSymbol]: answer });
}

/** What was thrown may quote the prompt, so only its kind leaves the thread. */
function kindOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.name : typeof thrown;
}
