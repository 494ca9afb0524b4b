// Shapes of block hashing. A hash is two u32 (lo, hi); a list of hashes is a Uint32Array of interleaved pairs:
// hash i stands at [2i] (low 32 bits) and [2i + 1] (high 32 bits).

/** A seed or a single 64-bit hash as two unsigned 32-bit halves. */
export interface U64 {
  readonly lo: number;
  readonly hi: number;
}

/** Interleaved (lo, hi) pairs, two entries per hash. */
export type HashPairs = Uint32Array;

/**
 * The hashes of every full block of a prompt; a partial last block has none. The arrays are the caller's for good, but views of a
 * buffer that holds other prompts' hashes too: copy what is kept for long, and before transferring to another thread.
 */
export interface PromptHashes {
  /** Number of full blocks: floor(tokens / block size). */
  readonly blocks: number;
  /** Local hash per block: its own tokens only. */
  readonly local: HashPairs;
  /** Sequence hash per block: the block and everything before it. */
  readonly sequence: HashPairs;
}

/** Hashes token blocks. One synchronous call per prompt. */
export interface BlockHasher {
  /** Which implementation runs: the WebAssembly kernel or pure TypeScript. */
  readonly kind: 'wasm' | 'typescript';
  /**
   * Local and sequence hashes of all full blocks of `tokens`, in arrays that no later call writes to.
   * @param tokens token ids, u32.
   * @param blockSize tokens per block, ≥ 1.
   * @param seed seed of the local hashes, from `blockHashSeed`.
   */
  hashPrompt(tokens: Uint32Array, blockSize: number, seed: U64): PromptHashes;
  /**
   * Continues a chain: sequence hashes for `local` behind `parent` (null = the chain starts here, its first sequence hash is
   * its first local hash), written to `out` (same length as `local`).
   */
  chain(parent: U64 | null, local: HashPairs, out: HashPairs): void;
  /** XXH3-64 of any bytes. */
  hashBytes(bytes: Uint8Array, seed: U64): U64;
}
