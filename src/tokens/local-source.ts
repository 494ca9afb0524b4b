// A model's own tokenizer files as its source of ids: threads, and what they did as metrics.
import type { Metrics } from '../observe/index.ts';
import type { EncodedPrompt } from './prompt-encoder.ts';
import { createTokenizerPool, type TokenizerPool, type TokenizerPoolOptions } from './tokenizer-pool.ts';
import type { CheckedTokenizer } from './tokenizer-task.ts';
import type { Truncation } from './truncation.ts';
import type { ChatPrompt, EstimateReason } from './types.ts';

/** The tokenizer of one model. */
export class LocalSource {
  readonly #pool: TokenizerPool;
  readonly #model: string;
  readonly #metrics: Metrics;

  constructor(model: string, options: TokenizerPoolOptions, metrics: Metrics) {
    this.#pool = createTokenizerPool(options);
    this.#model = model;
    this.#metrics = metrics;
  }

  /** Memory of kept ids, in bytes. */
  get cachedBytes(): number {
    return this.#pool.cachedBytes;
  }

  /** @throws PointsmanError PM_TOKENIZER_INVALID */
  start(): Promise<CheckedTokenizer> {
    return this.#pool.start();
  }

  /** @throws PointsmanError PM_TOKENIZER_BUSY, PM_TOKENIZER_FAILED */
  async prompt(text: string, addSpecialTokens: boolean, truncation: Truncation | null): Promise<Uint32Array> {
    return this.#told(await this.#pool.encodePrompt(text, addSpecialTokens, truncation));
  }

  /** @throws PointsmanError PM_TOKENIZER_BUSY, PM_TOKENIZER_FAILED */
  async chat(chat: ChatPrompt): Promise<Uint32Array | EstimateReason> {
    const encoded = await this.#pool.encodeChat(chat);
    return 'notRendered' in encoded ? encoded.notRendered : this.#told(encoded);
  }

  close(): Promise<void> {
    return this.#pool.close();
  }

  #told({ ids, counts }: EncodedPrompt): Uint32Array {
    const model = this.#model;
    this.#metrics.count('pointsman_tokenized_pieces_total', { model, ids: 'reused' }, counts.reused);
    this.#metrics.count(
      'pointsman_tokenized_pieces_total',
      { model, ids: 'encoded' },
      counts.pieces - counts.reused,
    );
    this.#metrics.count('pointsman_tokenized_characters_total', { model }, counts.encodedChars);
    return ids;
  }
}
