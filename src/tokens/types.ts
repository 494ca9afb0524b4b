// Where a model's token ids come from, as the doors see it.

/** How the ids of one prompt came about. */
export type PromptSource = 'local' | 'estimate' | 'given';

/**
 * Why a prompt has no exact ids: `content` = it holds more than text, such as images, whose tokens only the engine knows; `template` =
 * the model's chat template refuses it; `source` = the model is configured so.
 */
export type EstimateReason = 'content' | 'template' | 'source';

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
  /** False when the engine is to continue the last message. */
  readonly addGenerationPrompt: boolean;
  readonly addSpecialTokens: boolean;
  /** `chat_template_kwargs`. */
  readonly variables: Readonly<Record<string, unknown>>;
}

/** Turns the prompts of one model into token ids. */
export interface TokenSource {
  /** Loads and checks what it needs. @throws PointsmanError PM_TOKENIZER_INVALID */
  start(): Promise<void>;
  /**
   * Ids of a plain prompt: given ones are checked, text is tokenized.
   * @throws PointsmanError PM_PROMPT_INVALID, PM_PROMPT_TOO_LONG, PM_TOKENIZER_BUSY, PM_TOKENIZER_FAILED
   */
  encodePrompt(prompt: string | readonly unknown[], addSpecialTokens: boolean): Promise<TokenizedPrompt>;
  /**
   * Ids of a rendered chat; an estimate when the model's template cannot render it (the engine has the last word on that).
   * @throws PointsmanError PM_PROMPT_TOO_LONG, PM_TOKENIZER_BUSY, PM_TOKENIZER_FAILED
   */
  encodeChat(chat: ChatPrompt): Promise<TokenizedPrompt>;
  /** Stops its threads; idempotent. */
  close(): Promise<void>;
}
