// The code of a tokenizer thread: one model, loaded at the first task.
import { setTimeout } from 'node:timers/promises';
import { workerData } from 'node:worker_threads';
import { move } from 'piscina';
import { PointsmanError } from '../plugin/index.ts';
import { loadGgufTokenizer } from './builtin/gguf-tokenizer.ts';
import { loadTextTokenizer, type TextTokenizer } from './builtin/text-tokenizer.ts';
import { isGguf } from './node-llama.ts';
import { checkTokenizer } from './self-check.ts';
import type { TokenizerAnswer, TokenizerTask, TokenizerThread } from './tokenizer-task.ts';

// The pool passes exactly this value.
const files = workerData as TokenizerThread;
let loaded: TextTokenizer | null = null;

/** Runs one task; never rejects. */
export default async function run(task: TokenizerTask): Promise<TokenizerAnswer | ReturnType<typeof move>> {
  try {
    if (task.kind === 'dispose') {
      await end();
      return null;
    }
    loaded ??= await load();
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

/** Waits for the other threads, as the pool has one such task for each: who is done early must not take that of another. */
async function end(): Promise<void> {
  await loaded?.dispose?.();
  loaded = null;
  const ended = new Int32Array(files.ended);
  Atomics.add(ended, 0, 1);
  while (Atomics.load(ended, 0) < files.threads) await setTimeout(5);
}

async function load(): Promise<TextTokenizer> {
  const { template, tokenizer } = files;
  return isGguf(tokenizer)
    ? await loadGgufTokenizer(tokenizer, template)
    : loadTextTokenizer(tokenizer, template);
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
