// Chooses and bounds a model's token source: local threads, an estimate; checks prompts and enforces the prompt cap.
import type { TokensSetting } from '../config/index.ts';
import type { Metrics } from '../observe/index.ts';
import { type Clock, PointsmanError } from '../plugin/index.ts';
import { estimateChatTokens, estimateTokens } from './estimate.ts';
import { readPromptIds } from './prompt-ids.ts';
import { createTokenizerPool, type TokenizerPool } from './tokenizer-pool.ts';
import type { EstimateReason, PromptSource, TokenizedPrompt, TokenSource } from './types.ts';

/** What a token source needs. */
export interface TokenSourceDeps {
  /** Name of the model, for messages and metric labels. */
  readonly model: string;
  /** Paths are absolute here. */
  readonly setting: TokensSetting;
  /** Most tokens of a prompt (limits.prompt_tokens), read at each request. */
  readonly maxPromptTokens: () => number;
  /** Tokenizer threads; default 1. */
  readonly threads?: number;
  readonly metrics: Metrics;
  readonly clock: Clock;
}

/**
 * The token source of one model.
 * @throws PointsmanError PM_TOKENS_SOURCE for a source that is not available yet.
 */
export function createTokenSource(deps: TokenSourceDeps): TokenSource {
  const { setting, model } = deps;
  if (setting.source === 'engine') {
    throw new PointsmanError(
      'PM_TOKENS_SOURCE',
      `token source "engine" of model ${model} is not available yet; use local with a tokenizer.json, or estimate`,
      { details: { model } },
    );
  }
  const pool =
    setting.source === 'local'
      ? createTokenizerPool({
          tokenizer: setting.tokenizer,
          template: setting.template,
          threads: deps.threads ?? 1,
        })
      : null;
  return new BoundedTokenSource(deps, pool);
}

class BoundedTokenSource implements TokenSource {
  readonly #deps: TokenSourceDeps;
  readonly #pool: TokenizerPool | null;

  constructor(deps: TokenSourceDeps, pool: TokenizerPool | null) {
    this.#deps = deps;
    this.#pool = pool;
  }

  async start(): Promise<void> {
    await this.#pool?.start();
  }

  async encodePrompt(
    prompt: string | readonly unknown[],
    addSpecialTokens: boolean,
  ): Promise<TokenizedPrompt> {
    if (typeof prompt !== 'string') {
      // Before the ids are read: a list far beyond the cap is not worth a copy.
      this.#checkLength(prompt.length);
      return this.#checked(readPromptIds(prompt, 'prompt'), 'given');
    }
    if (prompt === '') throw emptyPrompt();
    if (this.#pool === null) return this.#estimate(estimateTokens(prompt), 'source');
    const pool = this.#pool;
    return this.#checked(await this.#timed(() => pool.encodePrompt(prompt, addSpecialTokens)), 'local');
  }

  async encodeChat(chat: Parameters<TokenSource['encodeChat']>[0]): Promise<TokenizedPrompt> {
    if (this.#pool === null) return this.#estimate(estimateChatTokens(chat.messages), 'source');
    const pool = this.#pool;
    const result = await this.#timed(() => pool.encodeChat(chat));
    if (result instanceof Uint32Array) return this.#checked(result, 'local');
    this.#deps.metrics.count('pointsman_tokenize_estimates_total', {
      model: this.#deps.model,
      reason: result.notRendered,
    });
    return this.#estimate(estimateChatTokens(chat.messages), result.notRendered);
  }

  async close(): Promise<void> {
    await this.#pool?.close();
  }

  async #timed<T>(encode: () => Promise<T>): Promise<T> {
    const from = this.#deps.clock.now();
    const result = await encode();
    this.#deps.metrics.observe('pointsman_tokenize_seconds', (this.#deps.clock.now() - from) / 1000, {
      model: this.#deps.model,
    });
    return result;
  }

  #checked(tokens: Uint32Array, source: PromptSource): TokenizedPrompt {
    if (tokens.length === 0) throw emptyPrompt();
    this.#checkLength(tokens.length);
    return { tokens, source };
  }

  /** An estimate never refuses: whether the prompt really fits, only the engine knows. */
  #estimate(tokens: number, estimated: EstimateReason): TokenizedPrompt {
    const length = Math.min(tokens, this.#deps.maxPromptTokens());
    return { tokens: new Uint32Array(length), source: 'estimate', estimated };
  }

  #checkLength(tokens: number): void {
    const max = this.#deps.maxPromptTokens();
    if (tokens <= max) return;
    throw new PointsmanError(
      'PM_PROMPT_TOO_LONG',
      `the prompt has ${tokens} tokens, but at most ${max} are accepted (limits.prompt_tokens)`,
      { details: { tokens, max } },
    );
  }
}

function emptyPrompt(): PointsmanError {
  return new PointsmanError('PM_PROMPT_INVALID', 'the prompt is empty; it must hold at least one token', {
    details: { param: 'prompt' },
  });
}
