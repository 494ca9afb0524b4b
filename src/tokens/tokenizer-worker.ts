// The code of a tokenizer thread: one model, loaded at the first task.
import { workerData } from 'node:worker_threads';
import { move, transferableSymbol, valueSymbol } from 'piscina';
import { PointsmanError } from '../plugin/index.ts';
import { loadGgufTokenizer } from './builtin/gguf-tokenizer.ts';
import { loadTextTokenizer, type TextTokenizer } from './builtin/text-tokenizer.ts';
import { isGguf } from './node-llama.ts';
import { type EncodedPrompt, PromptEncoder } from './prompt-encoder.ts';
import { checkTokenizer } from './self-check.ts';
import type { TokenizerAnswer, TokenizerTask, TokenizerThreadData } from './tokenizer-task.ts';

// The pool passes exactly this value.
const data = workerData as TokenizerThreadData;
let loaded: { readonly tokenizer: TextTokenizer; readonly encoder: PromptEncoder } | null = null;

/** Runs one task; never rejects. */
export default async function run(task: TokenizerTask): Promise<TokenizerAnswer | ReturnType<typeof move>> {
  try {
    if (task.kind === 'dispose') {
      await loaded?.tokenizer.dispose?.();
      loaded = null;
      return { kind: 'disposed' };
    }
    loaded ??= await load();
    const { tokenizer, encoder } = loaded;
    switch (task.kind) {
      case 'check':
        return {
          kind: 'checked',
          wholeBecause: checkTokenizer(tokenizer, encoder, data),
          hasTemplate: tokenizer.hasTemplate,
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

async function load(): Promise<{ readonly tokenizer: TextTokenizer; readonly encoder: PromptEncoder }> {
  const { style, template } = data;
  const tokenizer = isGguf(data.tokenizer)
    ? await loadGgufTokenizer(data.tokenizer, template, style)
    : loadTextTokenizer(data.tokenizer, template, style);
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
