// Tokenizer threads of one model: tokenizing a long prompt takes tens of milliseconds, which no other request may wait for.
import { fileURLToPath } from 'node:url';
import { Piscina } from 'piscina';
import { errorText, PointsmanError } from '../plugin/index.ts';
import { isGguf } from './node-llama.ts';
import type { TokenizerAnswer, TokenizerFiles, TokenizerTask, TokenizerThread } from './tokenizer-task.ts';
import type { ChatPrompt, EstimateReason } from './types.ts';

/** Settings of a pool. */
export interface TokenizerPoolOptions extends TokenizerFiles {
  readonly threads: number;
  /** Prompts that may wait for a thread; beyond it they are refused. Default 1,024. */
  readonly maxQueue?: number;
}

/** Why a chat was not rendered, as a metric label. */
export type NotRendered = Exclude<EstimateReason, 'source'>;

/** Tokenizes on other threads. */
export interface TokenizerPool {
  /** Loads the tokenizer on every thread and tries it. @throws PointsmanError PM_TOKENIZER_INVALID */
  start(): Promise<void>;
  /** @throws PointsmanError PM_TOKENIZER_BUSY, PM_TOKENIZER_FAILED */
  encodePrompt(text: string, addSpecialTokens: boolean): Promise<Uint32Array>;
  /** Ids, or why there are none: the template refuses the messages, or they hold more than text. */
  encodeChat(chat: ChatPrompt): Promise<Uint32Array | { readonly notRendered: NotRendered }>;
  /** Stops the threads; waiting prompts fail. Idempotent. */
  close(): Promise<void>;
}

const MAX_QUEUE = 1024;

/** Creates the threads; they load the tokenizer in `start`. */
export function createTokenizerPool(options: TokenizerPoolOptions): TokenizerPool {
  const files: TokenizerThread = {
    tokenizer: options.tokenizer,
    template: options.template,
    threads: options.threads,
    ended: new SharedArrayBuffer(4),
  };
  // Sources run only in tests, where a thread cannot load TypeScript by itself.
  const code = import.meta.url.endsWith('.ts') ? './worker-from-source.mjs' : './tokenizer-worker.js';
  const threads = new Piscina<TokenizerTask, TokenizerAnswer>({
    filename: fileURLToPath(new URL(code, import.meta.url)),
    minThreads: options.threads,
    maxThreads: options.threads,
    maxQueue: options.maxQueue ?? MAX_QUEUE,
    workerData: files,
    recordTiming: false,
  });
  let closing: Promise<void> | null = null;

  const run = async (task: TokenizerTask): Promise<TokenizerAnswer> => {
    try {
      return await threads.run(task);
    } catch (thrown) {
      if (threads.queueSize >= (options.maxQueue ?? MAX_QUEUE)) {
        throw new PointsmanError(
          'PM_TOKENIZER_BUSY',
          'too many prompts wait for tokenizing; try again later',
          {
            cause: thrown,
          },
        );
      }
      throw new PointsmanError('PM_TOKENIZER_FAILED', `a tokenizer thread failed: ${errorText(thrown)}`, {
        cause: thrown,
      });
    }
  };
  /** A thread that ends with llama.cpp's memory in its hands takes the process with it: each gives it back first. */
  const end = async (): Promise<void> => {
    const disposals = Array.from({ length: options.threads }, () => threads.run({ kind: 'dispose' }));
    await Promise.allSettled(disposals);
    await threads.destroy();
  };
  const ids = (answer: TokenizerAnswer): Uint32Array => {
    if (answer instanceof Uint32Array) return answer;
    throw answer === null
      ? new PointsmanError('PM_TOKENIZER_FAILED', 'a tokenizer thread gave no answer')
      : new PointsmanError(answer.code, answer.message);
  };

  return {
    async start() {
      // One task per thread: a thread takes no second one while it runs the first.
      const checks = Array.from({ length: options.threads }, () => run({ kind: 'check' }));
      for (const answer of await Promise.all(checks)) if (answer !== null) ids(answer);
    },
    async encodePrompt(text, addSpecialTokens) {
      return ids(await run({ kind: 'prompt', text, addSpecialTokens }));
    },
    async encodeChat(chat) {
      const answer = await run({ kind: 'chat', chat });
      if (answer !== null && 'code' in answer) {
        if (answer.code === 'PM_CHAT_TEMPLATE') return { notRendered: 'template' };
        if (answer.code === 'PM_CHAT_INVALID') return { notRendered: 'content' };
      }
      return ids(answer);
    },
    close() {
      closing ??= isGguf(options.tokenizer) ? end() : threads.destroy();
      return closing;
    },
  };
}
