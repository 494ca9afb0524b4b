// What travels between the router's thread and a tokenizer thread.
import type { ErrorCode } from '../plugin/index.ts';
import type { RenderStyle } from './builtin/render-style.ts';
import type { EncodedPrompt } from './prompt-encoder.ts';
import type { TokenFacts } from './token-agreement.ts';
import type { Truncation } from './truncation.ts';
import type { ChatPrompt } from './types.ts';

/** Files a tokenizer thread loads. */
export interface TokenizerFiles {
  /** Path of a tokenizer.json. */
  readonly tokenizer: string;
  /** Path of a chat template, or null: chat_template.jinja or that of tokenizer_config.json beside the tokenizer, if any. */
  readonly template: string | null;
}

/** What a tokenizer thread is started with. */
export interface TokenizerThreadData extends TokenizerFiles {
  /** Memory of one thread for the ids of pieces, in bytes. */
  readonly cacheBytes: number;
  /** Whose way of handing messages to templates is followed. */
  readonly style: RenderStyle;
}

/** What a check found. */
export interface CheckedTokenizer {
  /** Why prompts are not encoded in pieces; null = they are. */
  readonly wholeBecause: string | null;
  /** Whether chats can be rendered. */
  readonly hasTemplate: boolean;
  readonly facts: TokenFacts;
}

/** One piece of work. */
export type TokenizerTask =
  | { readonly kind: 'check' }
  /** The thread is about to end. */
  | { readonly kind: 'dispose' }
  | {
      readonly kind: 'prompt';
      readonly text: string;
      readonly addSpecialTokens: boolean;
      readonly truncation: Truncation | null;
    }
  | { readonly kind: 'chat'; readonly chat: ChatPrompt };

/**
 * Its result: ids (their memory moves over, it is not copied), what a check found, that a thread is ready to end, or an error by code.
 * Errors travel as data, since a class does not survive the way between threads.
 */
export type TokenizerAnswer =
  | ({ readonly kind: 'ids' } & EncodedPrompt)
  | ({ readonly kind: 'checked' } & CheckedTokenizer)
  | { readonly kind: 'disposed' }
  | { readonly kind: 'failed'; readonly code: ErrorCode; readonly message: string };
