// A context of llama.cpp behind the engine's port. Several sequences are computed in one batch; the library does that on threads of its
// own, so that this one only waits.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { errorText, PointsmanError } from '../plugin/index.ts';
import {
  type GgufContext,
  type GgufModel,
  type GgufSequence,
  type LlamaToken,
  type LoadedLlama,
  loadGguf,
} from '../tokens/index.ts';
import type { KvContext, KvSequence, LocalEngineSettings, Sampling } from './types.ts';

/** Longest stretch of output that penalties look at, in tokens. */
const PENALISED_TOKENS = 64;

/**
 * Loads a model and reserves its KV memory.
 * @throws PointsmanError PM_LLAMA_MODEL when the file is none, or its memory is not to be had.
 */
export async function openLlamaContext(
  llama: LoadedLlama,
  gguf: string,
  settings: LocalEngineSettings,
): Promise<KvContext> {
  const model = await loadGguf(llama, gguf, false);
  const { batchTokens, contextTokens, sequences } = settings;
  let context: GgufContext;
  try {
    context = await model.createContext({
      sequences,
      contextSize: Math.floor(contextTokens / sequences),
      batchSize: batchTokens,
      threads: 1,
      failedCreationRemedy: false,
    });
  } catch (cause) {
    await model.dispose();
    throw new PointsmanError(
      'PM_LLAMA_MODEL',
      `${gguf} cannot have ${contextTokens} tokens of KV memory: ${errorText(cause)}; take fewer context_tokens`,
      { cause, details: { file: gguf } },
    );
  }
  return new LlamaKvContext(model, context);
}

class LlamaKvContext implements KvContext {
  readonly sequences: readonly LlamaKvSequence[];
  readonly #model: GgufModel;
  readonly #context: GgufContext;
  readonly #size: number;

  constructor(model: GgufModel, context: GgufContext) {
    this.#model = model;
    this.#context = context;
    this.#size = model.fileInfo.metadata.tokenizer.ggml.tokens.length;
    this.sequences = Array.from({ length: context.totalSequences }, () => new LlamaKvSequence(context));
  }

  endsText(token: number): boolean {
    return this.#isToken(token) && this.#model.isEogToken(token);
  }

  textOf(tokens: readonly number[], before: readonly number[]): string {
    return this.#model.detokenize(this.#known(tokens), false, this.#known(before));
  }

  knows(token: number): boolean {
    return this.#isToken(token);
  }

  async close(): Promise<void> {
    await this.#context.dispose();
    await this.#model.dispose();
  }

  #isToken(token: number): boolean {
    return token >= 0 && token < this.#size;
  }

  #known(tokens: readonly number[]): number[] {
    return tokens.filter((token) => this.#isToken(token));
  }
}

class LlamaKvSequence implements KvSequence {
  readonly #sequence: GgufSequence;

  constructor(context: GgufContext) {
    // An engine ends a request before its sequence is full: nothing may be moved without its bookkeeping.
    const strategy = (): never => {
      throw new Error('the sequence is full');
    };
    this.#sequence = context.getSequence({ contextShift: { strategy } });
  }

  get length(): number {
    return this.#sequence.nextTokenIndex;
  }

  async keep(tokens: number): Promise<void> {
    const { nextTokenIndex: end } = this.#sequence;
    if (tokens < end) await this.#sequence.eraseContextTokenRanges([{ start: tokens, end }]);
  }

  async extend(tokens: Uint32Array): Promise<void> {
    await this.#sequence.evaluateWithoutGeneratingNewTokens(Array.from(tokens));
  }

  generate(token: number, sampling: Sampling): AsyncGenerator<number, void, undefined> {
    const { frequencyPenalty, presencePenalty, temperature, topK, topP, minP, seed } = sampling;
    const written: LlamaToken[] = [];
    const penalises = frequencyPenalty !== 0 || presencePenalty !== 0;
    const evaluated = this.#sequence.evaluate([token], {
      ...{ temperature, topK, topP, minP, seed, yieldEogToken: true },
      ...(penalises && {
        repeatPenalty: { punishTokens: () => written, penalty: 1, frequencyPenalty, presencePenalty },
      }),
    });
    if (!penalises) return outputs(evaluated, () => {});
    return outputs(evaluated, (output) => {
      written.push(output);
      if (written.length > PENALISED_TOKENS) written.shift();
    });
  }

  /** The library copies a sequence only by way of a file, which is gone at once. */
  async copyFrom(other: LlamaKvSequence): Promise<void> {
    // The file holds the ids of the prompt: in a folder of its own, which this user alone may look into.
    const folder = await mkdtemp(join(tmpdir(), 'pointsman-kv-'));
    const path = join(folder, 'sequence');
    try {
      await other.#sequence.saveStateToFile(path);
      // The risk is a file of another model.
      await this.#sequence.loadStateFromFile(path, { acceptRisk: true });
    } finally {
      await rm(folder, { force: true, recursive: true });
    }
  }
}

async function* outputs(
  evaluated: AsyncIterable<LlamaToken>,
  seen: (output: LlamaToken) => void,
): AsyncGenerator<number, void, undefined> {
  for await (const output of evaluated) {
    seen(output);
    yield output;
  }
}
