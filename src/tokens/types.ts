// Where a model's token ids come from, as the doors see it.
import type { TokenFacts } from './token-agreement.ts';
import type { Truncation } from './truncation.ts';

/** How the ids of one prompt came about. */
export type PromptSource = 'local' | 'engine' | 'estimate' | 'given';

/**
 * Why a prompt has no exact ids: `content` = it holds more than text, such as images, whose tokens only the engine knows; `template` =
 * the model's chat template refuses it, or the request brings its own; `source` = the model is configured so; `engine_refused` = the
 * engine would not tokenize it; `engine_silent` = none answered in time; `engine_busy` = too many were being asked; `no_engine` = no
 * worker of the model can be asked now.
 */
export type EstimateReason =
  | 'content'
  | 'template'
  | 'source'
  | 'engine_refused'
  | 'engine_silent'
  | 'engine_busy'
  | 'no_engine';

/** A prompt as token ids. */
export interface TokenizedPrompt {
  /** Exact ids, or zeros of the estimated length when `source` is `estimate`. */
  readonly tokens: Uint32Array;
  readonly source: PromptSource;
  /** Why `source` is `estimate`; absent = it is not. */
  readonly estimated?: EstimateReason;
}

/** A chat to tokenize; the parts of a request that its template sees. */
export interface ChatPrompt {
  readonly messages: readonly unknown[];
  readonly tools: unknown;
  /** False when the engine is to continue the last message, or to add nothing. */
  readonly addGenerationPrompt: boolean;
  readonly addSpecialTokens: boolean;
  /** `continue_final_message`: the prompt ends inside the last message; absent = no. */
  readonly continueFinalMessage?: boolean;
  /** `chat_template_kwargs`. */
  readonly variables: Readonly<Record<string, unknown>>;
  /** A chat template of the request's own; null or absent = the model's. */
  readonly ownTemplate?: string | null;
  /** Null or absent = the prompt is not shortened. */
  readonly truncation?: Truncation | null;
}

/** Turns the prompts of one model into token ids. */
export interface TokenSource {
  /** Loads and checks what it needs. @throws PointsmanError PM_TOKENIZER_INVALID */
  start(): Promise<void>;
  /** What works worse than it could, each a sentence that follows the model's name; known once it has started. */
  readonly notes: readonly string[];
  /** Of a local tokenizer, once it has started, for `compareTokens`; null = there is none. */
  readonly facts: TokenFacts | null;
  /**
   * Ids of a plain prompt: given ones are checked, text is tokenized.
   * @param truncation null (default) = the prompt is not shortened.
   * @throws PointsmanError PM_PROMPT_INVALID, PM_PROMPT_TOO_LONG, PM_TOKENIZER_BUSY, PM_TOKENIZER_FAILED
   */
  encodePrompt(
    prompt: string | readonly unknown[],
    addSpecialTokens: boolean,
    truncation?: Truncation | null,
  ): Promise<TokenizedPrompt>;
  /**
   * Ids of a rendered chat; an estimate when the model's template cannot render it (the engine has the last word on that).
   * @throws PointsmanError PM_PROMPT_TOO_LONG, PM_TOKENIZER_BUSY, PM_TOKENIZER_FAILED
   */
  encodeChat(chat: ChatPrompt): Promise<TokenizedPrompt>;
  /** Stops its threads; idempotent. */
  close(): Promise<void>;
}
