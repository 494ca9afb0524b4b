// The engine's own names of blocks: XXH3_64 over the little-endian sequence hash that the router would compute, under the
// engine's hash seed. Never equal to the router's hashes, so that mixing the two up is a miss in every test.
import type { BlockHasher, HashPairs, U64 } from '../../kv/index.ts';

/** Hashes token blocks for one engine. */
export class ExternalHasher {
  readonly #hasher: BlockHasher;
  readonly #blockSize: number;
  readonly #seed: U64;
  readonly #sequence = new Uint32Array(2);

  /** @param hashSeed a non-negative safe integer. */
  constructor(hasher: BlockHasher, blockSize: number, hashSeed: number) {
    this.#hasher = hasher;
    this.#blockSize = blockSize;
    this.#seed = { lo: hashSeed >>> 0, hi: Math.floor(hashSeed / 4294967296) >>> 0 };
  }

  /** External and sequence hashes of every full block of a prompt. @param blockSeed that of its local hashes. */
  prompt(
    tokens: Uint32Array,
    blockSeed: U64,
  ): { readonly external: HashPairs; readonly sequence: HashPairs } {
    const { sequence } = this.#hasher.hashPrompt(tokens, this.#blockSize, blockSeed);
    return { external: this.#renamed(sequence), sequence };
  }

  /**
   * Hashes one more block behind a chain and writes its external hash to `external` at `index`.
   * @param parent sequence hash of the block before; null at the root. @returns the block's sequence hash.
   */
  next(tokens: Uint32Array, parent: U64 | null, external: HashPairs, index: number, blockSeed: U64): U64 {
    const { local } = this.#hasher.hashPrompt(tokens, this.#blockSize, blockSeed);
    this.#hasher.chain(parent, local, this.#sequence);
    external.set(this.#renamed(this.#sequence), 2 * index);
    return { lo: this.#sequence[0]!, hi: this.#sequence[1]! };
  }

  /** A sequence hash as pairs is a prompt of two tokens per block, so one call hashes them all. */
  #renamed(sequence: HashPairs): HashPairs {
    return this.#hasher.hashPrompt(sequence, 2, this.#seed).local;
  }
}
