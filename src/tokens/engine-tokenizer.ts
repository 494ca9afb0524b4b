// The port to engines that tokenize for the router. Who can be asked, and in which words, is for others to say.
import type { Truncation } from './truncation.ts';
import type { ChatPrompt } from './types.ts';

/** A prompt as it is put to an engine. */
export type EngineQuestion =
  | {
      readonly kind: 'prompt';
      readonly text: string;
      readonly addSpecialTokens: boolean;
      readonly truncation: Truncation | null;
    }
  | { readonly kind: 'chat'; readonly chat: ChatPrompt };

/**
 * What an engine answers: ids, `refused` = it would not tokenize this prompt, which another one would not either, `unable` = it has no
 * way of tokenizing it.
 */
export type EngineAnswer = Uint32Array | 'refused' | 'unable';

/** One engine that may be asked. */
export interface TokenizingEngine {
  /** The same for the same engine, for remembering who failed. */
  readonly id: string;
  /**
   * Ids of a prompt, shortened or not: the one who asks shortens what is longer.
   * @param signal ends the question early; the promise then rejects.
   * @throws PointsmanError PM_ENGINE_UNREACHABLE, PM_ENGINE_FAILED; another engine may do better.
   */
  tokenize(question: EngineQuestion, signal: AbortSignal): Promise<EngineAnswer>;
}

/** Finds engines to ask. */
export interface EngineTokenizer {
  /** Those of a model that take requests now, in any order, fresh at each call. */
  engines(model: string): readonly TokenizingEngine[];
}

/** Nobody can be asked; for checks that start no fleet. */
export const NO_ENGINES: EngineTokenizer = { engines: () => [] };
