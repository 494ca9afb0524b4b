// What of node-llama-cpp is used, in types of its own: the package is optional, and these declarations are read where it is missing too.

/** A token id that the library gave, in its own words for one. */
export type LlamaToken = number & { readonly __token: never };

/** llama.cpp, loaded. */
export interface LoadedLlama {
  loadModel(options: { readonly modelPath: string; readonly vocabOnly: boolean }): Promise<GgufModel>;
  dispose(): Promise<void>;
}

/** A model. Token ids are whole numbers below the number of `tokens`. */
export interface GgufModel {
  readonly fileInfo: {
    readonly metadata: {
      readonly tokenizer: {
        readonly chat_template?: string;
        readonly ggml: { readonly tokens: readonly string[]; readonly token_type?: readonly number[] };
      };
    };
  };
  readonly tokens: {
    readonly bos: number | null;
    readonly bosString: string | null;
    readonly eosString: string | null;
    readonly shouldPrependBosToken: boolean;
  };
  /** @param specialTokens whether marks such as `<|im_start|>` in the text are tokens. */
  tokenize(text: string, specialTokens: boolean): readonly number[];
  detokenize(tokens: readonly number[], specialTokens: boolean, before?: readonly number[]): string;
  /** Whether it ends an answer. */
  isEogToken(token: number | undefined): boolean;
  createContext(options: {
    readonly sequences: number;
    /** Tokens of one sequence. */
    readonly contextSize: number;
    readonly batchSize: number;
    readonly threads: number;
    readonly failedCreationRemedy: false;
  }): Promise<GgufContext>;
  dispose(): Promise<void>;
}

/** KV memory of a model. */
export interface GgufContext {
  readonly totalSequences: number;
  getSequence(options: { readonly contextShift: { strategy(): never } }): GgufSequence;
  dispose(): Promise<void>;
}

/** One sequence of it. */
export interface GgufSequence {
  readonly nextTokenIndex: number;
  eraseContextTokenRanges(ranges: { start: number; end: number }[]): Promise<void>;
  evaluateWithoutGeneratingNewTokens(tokens: number[]): Promise<void>;
  evaluate(
    tokens: number[],
    options: {
      readonly temperature: number;
      readonly topK: number;
      readonly topP: number;
      readonly minP: number;
      readonly seed: number;
      readonly yieldEogToken: boolean;
      readonly repeatPenalty?: {
        punishTokens(): LlamaToken[];
        readonly penalty: number;
        readonly frequencyPenalty: number;
        readonly presencePenalty: number;
      };
    },
  ): AsyncIterable<LlamaToken>;
  saveStateToFile(path: string): Promise<unknown>;
  loadStateFromFile(path: string, options: { readonly acceptRisk: true }): Promise<void>;
}
