// Chooses and bounds a model's token source: local threads, its engines, an estimate; checks prompts and enforces the prompt cap.
import type { TokensSetting } from '../config/index.ts';
import type { Metrics } from '../observe/index.ts';
import { type Clock, PointsmanError } from '../plugin/index.ts';
import { holdsOnlyText } from './builtin/chat-messages.ts';
import type { RenderStyle } from './builtin/render-style.ts';
import { EngineSource } from './engine-source.ts';
import type { EngineTokenizer } from './engine-tokenizer.ts';
import { estimateChatTokens, estimateTokens } from './estimate.ts';
import { LocalSource } from './local-source.ts';
import { readPromptIds } from './prompt-ids.ts';
import type { TokenFacts } from './token-agreement.ts';
import type { CheckedTokenizer } from './tokenizer-task.ts';
import { type Truncation, truncated } from './truncation.ts';
import type { ChatPrompt, EstimateReason, PromptSource, TokenizedPrompt, TokenSource } from './types.ts';

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
  /** Memory for ids of prompts that came lately, in bytes; default 0 = none. */
  readonly cacheBytes?: number;
  /** Whose way of handing chats to templates is followed where the setting does not say; default `plain`. */
  readonly style?: RenderStyle;
  /** Who is asked with source `engine`. */
  readonly engines?: EngineTokenizer;
  readonly metrics: Metrics;
  readonly clock: Clock;
}

/**
 * The token source of one model.
 * @throws PointsmanError PM_TOKENS_SOURCE for source `engine` where no engine can be asked.
 */
export function createTokenSource(deps: TokenSourceDeps): TokenSource {
  const { setting, model, metrics, clock, cacheBytes = 0 } = deps;
  switch (setting.source) {
    case 'estimate':
      return new BoundedTokenSource(deps, null);
    case 'local': {
      const { tokenizer, template } = setting;
      const style = setting.renderAs ?? deps.style ?? 'plain';
      const options = { tokenizer, template, threads: deps.threads ?? 1, cacheBytes, style };
      return new BoundedTokenSource(deps, new LocalSource(model, options, metrics));
    }
    case 'engine': {
      if (deps.engines === undefined) {
        throw new PointsmanError(
          'PM_TOKENS_SOURCE',
          `token source "engine" of model ${model} needs workers to ask, and there are none here; use local with a tokenizer.json, or estimate`,
          { details: { model } },
        );
      }
      const { timeoutMs, concurrency } = setting;
      const asked = { model, engines: deps.engines, timeoutMs, concurrency, cacheBytes, metrics, clock };
      return new BoundedTokenSource(deps, new EngineSource(asked));
    }
  }
}

/** Follows a model's name. */
const NO_TEMPLATE =
  'has no chat template, so none of its chats is matched with what engines have cached: name the template of the engine under tokens.template, or use tokens: { source: engine }';

class BoundedTokenSource implements TokenSource {
  readonly #deps: TokenSourceDeps;
  readonly #ids: LocalSource | EngineSource | null;
  #tokenizer: CheckedTokenizer | null = null;

  constructor(deps: TokenSourceDeps, ids: LocalSource | EngineSource | null) {
    this.#deps = deps;
    this.#ids = ids;
    if (ids === null) return;
    const labels = { model: deps.model };
    deps.metrics.gauge('pointsman_token_cache_bytes', () => [{ labels, value: ids.cachedBytes }]);
  }

  get notes(): readonly string[] {
    const trouble = this.#ids instanceof EngineSource ? this.#ids.trouble : null;
    const template = this.#tokenizer?.hasTemplate === false ? NO_TEMPLATE : null;
    return [this.#tokenizer?.wholeBecause ?? null, template, trouble].filter((note) => note !== null);
  }

  get facts(): TokenFacts | null {
    return this.#tokenizer?.facts ?? null;
  }

  async start(): Promise<void> {
    if (this.#ids instanceof LocalSource) this.#tokenizer = await this.#ids.start();
  }

  async encodePrompt(
    prompt: string | readonly unknown[],
    addSpecialTokens: boolean,
    truncation: Truncation | null = null,
  ): Promise<TokenizedPrompt> {
    if (typeof prompt !== 'string') {
      // Before the ids are read: a list far beyond the cap is not worth a copy.
      this.#checkLength(Math.min(prompt.length, truncation?.tokens ?? Number.POSITIVE_INFINITY));
      return this.#checked(truncated(readPromptIds(prompt, 'prompt'), truncation), 'given');
    }
    if (prompt === '') throw emptyPrompt();
    const ids = this.#ids;
    if (ids === null) return this.#estimate(estimateTokens(prompt), 'source', truncation);
    const result =
      ids instanceof LocalSource
        ? await this.#timed(() => ids.prompt(prompt, addSpecialTokens, truncation))
        : await this.#timed(() => ids.ask({ kind: 'prompt', text: prompt, addSpecialTokens, truncation }));
    return this.#settled(result, () => estimateTokens(prompt), truncation);
  }

  async encodeChat(chat: ChatPrompt): Promise<TokenizedPrompt> {
    const truncation = chat.truncation ?? null;
    const estimate = (): number => estimateChatTokens(chat.messages);
    const ids = this.#ids;
    if (ids === null) return this.#estimate(estimate(), 'source', truncation);
    const result = await this.#chatIds(ids, chat);
    return this.#settled(result, estimate, truncation);
  }

  async close(): Promise<void> {
    await this.#ids?.close();
  }

  async #chatIds(ids: LocalSource | EngineSource, chat: ChatPrompt): Promise<Uint32Array | EstimateReason> {
    if (ids instanceof LocalSource) {
      // Whether an engine follows a template that came with the request is its own setting.
      if ((chat.ownTemplate ?? null) !== null) return 'template';
      return this.#timed(() => ids.chat(chat));
    }
    // An engine would tell placeholders, which are the same for every image.
    if (!holdsOnlyText(chat.messages)) return 'content';
    return this.#timed(() => ids.ask({ kind: 'chat', chat }));
  }

  #settled(
    result: Uint32Array | EstimateReason,
    estimate: () => number,
    truncation: Truncation | null,
  ): TokenizedPrompt {
    if (typeof result !== 'string')
      return this.#checked(result, this.#ids instanceof LocalSource ? 'local' : 'engine');
    this.#deps.metrics.count('pointsman_tokenize_estimates_total', {
      model: this.#deps.model,
      reason: result,
    });
    return this.#estimate(estimate(), result, truncation);
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
  #estimate(tokens: number, estimated: EstimateReason, truncation: Truncation | null): TokenizedPrompt {
    const most = Math.min(this.#deps.maxPromptTokens(), truncation?.tokens ?? Number.POSITIVE_INFINITY);
    return { tokens: new Uint32Array(Math.max(1, Math.min(tokens, most))), source: 'estimate', estimated };
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
