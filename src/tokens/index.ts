// Text to token ids: tokenizer.json, chat templates, engines, estimates; off the main thread.
export type { RenderStyle } from './builtin/render-style.ts';
export { loadTextTokenizer, type RenderChatOptions, type TextTokenizer } from './builtin/text-tokenizer.ts';
export { TINY_TOKENIZER, TINY_WORDS } from './builtin/tiny-files.ts';
export {
  type EngineAnswer,
  type EngineQuestion,
  type EngineTokenizer,
  NO_ENGINES,
  type TokenizingEngine,
} from './engine-tokenizer.ts';
export type { GgufContext, GgufModel, GgufSequence, LlamaToken, LoadedLlama } from './llama-types.ts';
export { loadGguf, loadNodeLlama } from './node-llama.ts';
export { compareTokens, type TokenFacts } from './token-agreement.ts';
export { createTokenSource, type TokenSourceDeps } from './token-source.ts';
export type { Truncation } from './truncation.ts';
export type { ChatPrompt, PromptSource, TokenizedPrompt, TokenSource } from './types.ts';
