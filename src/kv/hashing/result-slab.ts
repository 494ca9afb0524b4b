// Memory of hash results. A buffer of its own for every prompt costs about as much as hashing thirty blocks, and the collector
// far more later; so prompts take turns in a larger one, which goes when the last of their results is let go.
import type { PromptHashes } from './types.ts';

/**
 * Words of a slab: 32 KiB, the results of eight prompts of 4,096 tokens in blocks of 16. One result that is kept keeps its whole
 * slab, so this is also the most that a kept result can cost beyond its own size.
 */
export const SLAB_WORDS = 8192;

/** Hands out room for results, never the same twice. */
export class ResultSlab {
  #words: Uint32Array = new Uint32Array(0);
  #used = 0;

  /** A copy of the hashes of `blocks` blocks: at word `from` of `memory` the local ones, right behind them the sequence ones. */
  copy(memory: Uint32Array, from: number, blocks: number): PromptHashes {
    const length = 4 * blocks;
    let words = this.#words;
    let at = this.#used;
    if (length > SLAB_WORDS / 2) {
      words = roomFor(length);
      at = 0;
    } else {
      if (at + length > words.length) {
        words = roomFor(SLAB_WORDS);
        this.#words = words;
        at = 0;
      }
      this.#used = at + length;
    }
    words.set(memory.subarray(from, from + length), at);
    const { buffer } = words;
    return {
      blocks,
      local: new Uint32Array(buffer, 4 * at, 2 * blocks),
      sequence: new Uint32Array(buffer, 4 * at + 8 * blocks, 2 * blocks),
    };
  }
}

/** Memory as it comes: nobody reads a word before a result was written to it, and zeros would cost one decision in eight a microsecond. */
function roomFor(words: number): Uint32Array {
  const { buffer, byteOffset } = Buffer.allocUnsafeSlow(4 * words);
  return new Uint32Array(buffer, byteOffset, words);
}
