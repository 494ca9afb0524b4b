// Text to token ids: tokenizer.json, chat templates, estimates; off the main thread.
export { loadTextTokenizer, type RenderChatOptions, type TextTokenizer } from './builtin/text-tokenizer.ts';
export { TINY_TOKENIZER, TINY_WORDS } from './builtin/tiny-files.ts';
export { loadGguf, loadNodeLlama } from './node-llama.ts';
export { createTokenSource, type TokenSourceDeps } from './token-source.ts';
export type { ChatPrompt, PromptSource, TokenizedPrompt, TokenSource } from './types.ts';
