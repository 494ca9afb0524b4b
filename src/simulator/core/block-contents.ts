// What stands in cached blocks, by copy number: their tokens and the hash before them. A block that moves to another tier is
// announced there with both. One slab per column, as large as the pool it belongs to.
import type { U64 } from '../../kv/index.ts';

/** Contents of a pool's copies. */
export class BlockContents {
  readonly #blockSize: number;
  readonly #tokens: Uint32Array;
  readonly #parents: Uint32Array;
  readonly #hasParent: Uint8Array;

  /** @param rows copies of the pool. */
  constructor(rows: number, blockSize: number) {
    this.#blockSize = blockSize;
    this.#tokens = new Uint32Array(rows * blockSize);
    this.#parents = new Uint32Array(2 * rows);
    this.#hasParent = new Uint8Array(rows);
  }

  /** Records that `copy` holds block `block` of a prompt. @param tokens the block's. @param external hashes of the prompt's blocks. */
  put(copy: number, tokens: Uint32Array, external: Uint32Array, block: number): void {
    this.#tokens.set(tokens, copy * this.#blockSize);
    this.#hasParent[copy] = block === 0 ? 0 : 1;
    if (block === 0) return;
    this.#parents[2 * copy] = external[2 * block - 2]!;
    this.#parents[2 * copy + 1] = external[2 * block - 1]!;
  }

  /** Takes over the contents of another pool's copy. */
  copyFrom(other: BlockContents, from: number, copy: number): void {
    this.#tokens.set(other.#viewOf(from), copy * this.#blockSize);
    this.#hasParent[copy] = other.#hasParent[from]!;
    this.#parents.set(other.#parents.subarray(2 * from, 2 * from + 2), 2 * copy);
  }

  /** Hash of the block before; null at the root. */
  parentOf(copy: number): U64 | null {
    return this.#hasParent[copy] === 0
      ? null
      : { lo: this.#parents[2 * copy]!, hi: this.#parents[2 * copy + 1]! };
  }

  /** Fresh copy of a block's tokens. */
  tokensOf(copy: number): Uint32Array {
    return this.#viewOf(copy).slice();
  }

  #viewOf(copy: number): Uint32Array {
    return this.#tokens.subarray(copy * this.#blockSize, (copy + 1) * this.#blockSize);
  }
}
