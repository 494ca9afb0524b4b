// Tokenizer threads of one model: tokenizing a long prompt takes tens of milliseconds, which no other request may wait for. Each thread
// keeps the ids of what it encoded lately, beside the tokenizer that needs them; a conversation goes to the same thread each time, so
// nothing is looked up across threads and no text is kept on the router's own.
import { fileURLToPath } from 'node:url';
import { Piscina } from 'piscina';
import { errorText, PointsmanError } from '../plugin/index.ts';
import type { RenderStyle } from './builtin/render-style.ts';
import { conversationOf, textStart } from './conversation-key.ts';
import { isGguf } from './node-llama.ts';
import type { EncodeCounts, EncodedPrompt } from './prompt-encoder.ts';
import type {
  CheckedTokenizer,
  TokenizerAnswer,
  TokenizerFiles,
  TokenizerTask,
  TokenizerThreadData,
} from './tokenizer-task.ts';
import type { Truncation } from './truncation.ts';
import type { ChatPrompt } from './types.ts';

/** Settings of a pool. */
export interface TokenizerPoolOptions extends TokenizerFiles {
  readonly threads: number;
  /** Prompts that may wait for a thread; beyond it they are refused. Default 1,024. */
  readonly maxQueue?: number;
  /** Memory of all threads for the ids of what they encoded lately, in bytes; default 0 = none. */
  readonly cacheBytes?: number;
  /** Default `plain`. */
  readonly style?: RenderStyle;
}

/** Why a chat was not rendered, as a metric label. */
export type NotRendered = 'template' | 'content';

/** Tokenizes on other threads. */
export interface TokenizerPool {
  /**
   * Loads the tokenizer on every thread and tries it.
   * @throws PointsmanError PM_TOKENIZER_INVALID
   */
  start(): Promise<CheckedTokenizer>;
  /** @throws PointsmanError PM_TOKENIZER_BUSY, PM_TOKENIZER_FAILED */
  encodePrompt(
    text: string,
    addSpecialTokens: boolean,
    truncation?: Truncation | null,
  ): Promise<EncodedPrompt>;
  /** Ids, or why there are none: the template refuses the messages, or they hold more than text. */
  encodeChat(chat: ChatPrompt): Promise<EncodedPrompt | { readonly notRendered: NotRendered }>;
  /** Memory of all threads for ids, as they last said, in bytes. */
  readonly cachedBytes: number;
  /** Stops the threads; waiting prompts fail. Idempotent. */
  close(): Promise<void>;
}

const MAX_QUEUE = 1024;
/** So many prompts more than the least busy one a thread may have before a conversation is sent away from its ids. */
const SPILL_AFTER = 2;

interface Thread {
  readonly piscina: Piscina<TokenizerTask, TokenizerAnswer>;
  /** Prompts it has or that wait for it. */
  pending: number;
  cachedBytes: number;
}

/** Creates the threads; they load the tokenizer in `start`. */
export function createTokenizerPool(options: TokenizerPoolOptions): TokenizerPool {
  const data: TokenizerThreadData = {
    tokenizer: options.tokenizer,
    template: options.template,
    cacheBytes: Math.floor((options.cacheBytes ?? 0) / options.threads),
    style: options.style ?? 'plain',
  };
  const most = (options.maxQueue ?? MAX_QUEUE) + options.threads;
  const threads: Thread[] = Array.from({ length: options.threads }, () => ({
    piscina: newThread(data),
    pending: 0,
    cachedBytes: 0,
  }));
  let waiting = 0;
  let closing: Promise<void> | null = null;

  const run = async (thread: Thread, task: TokenizerTask): Promise<TokenizerAnswer> => {
    thread.pending += 1;
    waiting += 1;
    try {
      return await thread.piscina.run(task);
    } catch (thrown) {
      throw new PointsmanError('PM_TOKENIZER_FAILED', `a tokenizer thread failed: ${errorText(thrown)}`, {
        cause: thrown,
      });
    } finally {
      thread.pending -= 1;
      waiting -= 1;
    }
  };
  /** The thread of a conversation, or the least busy one when that has fallen behind. */
  const threadOf = (key: number): Thread => {
    if (waiting >= most) {
      throw new PointsmanError('PM_TOKENIZER_BUSY', 'too many prompts wait for tokenizing; try again later');
    }
    const home = threads[key % threads.length];
    let idle = threads[0];
    for (const thread of threads) if (thread.pending < (idle?.pending ?? 0)) idle = thread;
    if (home === undefined || idle === undefined)
      throw new PointsmanError('PM_TOKENIZER_FAILED', 'there is no tokenizer thread');
    return home.pending > idle.pending + SPILL_AFTER ? idle : home;
  };
  /** A thread that ends with llama.cpp's memory in its hands takes the process with it: it gives it back first. */
  const end = async (piscina: Thread['piscina']): Promise<void> => {
    if (isGguf(options.tokenizer)) await Promise.allSettled([piscina.run({ kind: 'dispose' })]);
    await piscina.destroy();
  };
  const encoded = (thread: Thread, answer: TokenizerAnswer): EncodedPrompt => {
    if (answer.kind === 'failed') throw new PointsmanError(answer.code, answer.message);
    if (answer.kind !== 'ids')
      throw new PointsmanError('PM_TOKENIZER_FAILED', 'a tokenizer thread gave no ids');
    const counts: EncodeCounts = answer.counts;
    thread.cachedBytes = counts.cachedBytes;
    return { ids: answer.ids, counts };
  };

  return {
    async start() {
      const answers = await Promise.all(threads.map((thread) => run(thread, { kind: 'check' })));
      for (const answer of answers) {
        if (answer.kind === 'failed') throw new PointsmanError(answer.code, answer.message);
      }
      const [first] = answers;
      if (first?.kind !== 'checked')
        throw new PointsmanError('PM_TOKENIZER_FAILED', 'a tokenizer thread did not check its files');
      return first;
    },
    async encodePrompt(text, addSpecialTokens, truncation = null) {
      const thread = threadOf(textStart(text));
      return encoded(thread, await run(thread, { kind: 'prompt', text, addSpecialTokens, truncation }));
    },
    async encodeChat(chat) {
      const thread = threadOf(conversationOf(chat.messages));
      const answer = await run(thread, { kind: 'chat', chat });
      if (answer.kind === 'failed') {
        if (answer.code === 'PM_CHAT_TEMPLATE') return { notRendered: 'template' };
        if (answer.code === 'PM_CHAT_INVALID') return { notRendered: 'content' };
      }
      return encoded(thread, answer);
    },
    get cachedBytes() {
      return threads.reduce((sum, thread) => sum + thread.cachedBytes, 0);
    },
    close() {
      closing ??= Promise.all(threads.map(({ piscina }) => end(piscina))).then(() => {});
      return closing;
    },
  };
}

function newThread(workerData: TokenizerThreadData): Piscina<TokenizerTask, TokenizerAnswer> {
  // Sources run only in tests, where a thread cannot load TypeScript by itself.
  const code = import.meta.url.endsWith('.ts') ? './worker-from-source.mjs' : './tokenizer-worker.js';
  return new Piscina<TokenizerTask, TokenizerAnswer>({
    filename: fileURLToPath(new URL(code, import.meta.url)),
    minThreads: 1,
    maxThreads: 1,
    workerData,
    recordTiming: false,
  });
}
