// What travels between the router's thread and a tokenizer thread.
import type { ErrorCode } from '../plugin/index.ts';
import type { ChatPrompt } from './types.ts';

/** Files a tokenizer thread loads. */
export interface TokenizerFiles {
  /** Path of a tokenizer.json, or of a GGUF model that holds one. */
  readonly tokenizer: string;
  /** Path of a chat template, or null: the one of tokenizer_config.json beside the tokenizer, if any. */
  readonly template: string | null;
}

/** What a thread is started with. */
export interface TokenizerThread extends TokenizerFiles {
  readonly threads: number;
  /** An Int32 that all threads share: how many are ready to end. */
  readonly ended: SharedArrayBuffer;
}

/** One piece of work. */
export type TokenizerTask =
  | { readonly kind: 'check' }
  /** The thread is about to end. */
  | { readonly kind: 'dispose' }
  | { readonly kind: 'prompt'; readonly text: string; readonly addSpecialTokens: boolean }
  | { readonly kind: 'chat'; readonly chat: ChatPrompt };

/**
 * Its result: ids (transferred), null for a check that passed and for a thread that is ready to end, or an error by code. Errors travel as data, since a class does
 * not survive the way between threads.
 */
export type TokenizerAnswer = Uint32Array | null | { readonly code: ErrorCode; readonly message: string };
