// What travels between the router's thread and a tokenizer thread.
import type { ErrorCode } from '../plugin/index.ts';
import type { RenderStyle } from './builtin/render-style.ts';
import type { EncodedPrompt } from './prompt-encoder.ts';
import type { Truncation } from './truncation.ts';
import type { ChatPrompt } from './types.ts';

/** Files a tokenizer thread loads. */
export interface TokenizerFiles {
  /** Path of a tokenizer.json. */
  readonly tokenizer: string;
  /** Path of a chat template, or null: the one of tokenizer_config.json beside the tokenizer, if any. */
  readonly template: string | null;
}

/** What a tokenizer thread is started with. */
export interface TokenizerThreadData extends TokenizerFiles {
  /** Memory of one thread for the ids of pieces, in bytes. */
  readonly cacheBytes: number;
  /** Whose way of handing messages to templates is followed. */
  readonly style: RenderStyle;
}

/** One piece of work. */
export type TokenizerTask =
  | { readonly kind: 'check' }
  | {
      readonly kind: 'prompt';
      readonly text: string;
      readonly addSpecialTokens: boolean;
      readonly truncation: Truncation | null;
    }
  | { readonly kind: 'chat'; readonly chat: ChatPrompt };

/**
 * Its result: ids (their memory moves over, it is not copied), what a check found, or an error by code. Errors travel as data, since
 * a class does not survive the way between threads.
 */
export type TokenizerAnswer =
  | ({ readonly kind: 'ids' } & EncodedPrompt)
  /** Why prompts are not encoded in pieces; null = they are. */
  | { readonly kind: 'checked'; readonly wholeBecause: string | null }
  | { readonly kind: 'failed'; readonly code: ErrorCode; readonly message: string };
