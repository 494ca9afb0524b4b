// The block hasher over the WebAssembly kernel: copies a prompt into linear memory, makes one call, copies the hashes out.
// Budget: 4,096 tokens in 16-token blocks in under 10 µs, copies included.
import { PointsmanError } from '../../plugin/index.ts';
import { checkByteLength, checkChain, fullBlocks } from './hash-limits.ts';
import type { HashKernel } from './kernel.ts';
import { ResultSlab } from './result-slab.ts';
import type { BlockHasher, HashPairs, PromptHashes, U64 } from './types.ts';
import type { WasmMemory } from './wasm-api.ts';

const PAGE_BYTES = 65_536;
/** The kernel is not told where an array ends; 16 bytes apart keep vector loads aligned. */
const ALIGNMENT = 16;
/** Up to so many hashes, as of an engine's event, are copied one by one: a view to copy from costs more than that. */
const FEW = 32;

/**
 * Wraps a kernel. Its memory grows to what the longest prompt so far needed, at most about 80 MiB, and never shrinks.
 */
export class WasmHasher implements BlockHasher {
  readonly kind = 'wasm';
  readonly #kernel: HashKernel;
  /** Byte offset of the first array. */
  readonly #base: number;
  /** The memory as words; replaced when growth detaches it. */
  #words: Uint32Array;
  readonly #results = new ResultSlab();

  constructor(kernel: HashKernel) {
    this.#kernel = kernel;
    this.#base = aligned(kernel.heapBase());
    this.#words = new Uint32Array(kernel.memory.buffer);
  }

  hashPrompt(tokens: Uint32Array, blockSize: number, seed: U64): PromptHashes {
    const blocks = fullBlocks(tokens.length, blockSize);
    if (blocks === 0) return { blocks, local: new Uint32Array(0), sequence: new Uint32Array(0) };
    const used = blocks * blockSize;
    const local = aligned(this.#base + 4 * used);
    const sequence = local + 8 * blocks;
    const words = this.#room(sequence + 8 * blocks);
    words.set(used === tokens.length ? tokens : tokens.subarray(0, used), this.#base >> 2);
    this.#kernel.hashPrompt(this.#base, blocks, 4 * blockSize, seed.lo, seed.hi, local, sequence);
    return this.#results.copy(words, local >> 2, blocks);
  }

  chain(parent: U64 | null, local: HashPairs, out: HashPairs): void {
    checkChain(local, out);
    const count = local.length / 2;
    const result = aligned(this.#base + 8 * count);
    const words = this.#room(result + 8 * count);
    if (count > FEW) words.set(local, this.#base >> 2);
    else for (let word = 0; word < 2 * count; word += 1) words[(this.#base >> 2) + word] = local[word]!;
    this.#kernel.chain(parent?.lo ?? 0, parent?.hi ?? 0, parent === null ? 0 : 1, this.#base, count, result);
    const from = result >> 2;
    if (count > FEW) out.set(words.subarray(from, from + 2 * count));
    else for (let word = 0; word < 2 * count; word += 1) out[word] = words[from + word]!;
  }

  hashBytes(bytes: Uint8Array, seed: U64): U64 {
    checkByteLength(bytes.length);
    const result = aligned(this.#base + bytes.length);
    const words = this.#room(result + 8);
    new Uint8Array(words.buffer).set(bytes, this.#base);
    this.#kernel.hashBytes(this.#base, bytes.length, seed.lo, seed.hi, result);
    return { lo: words[result >> 2]!, hi: words[(result >> 2) + 1]! };
  }

  /** A view of the memory that reaches at least to byte `end`. Growth by anybody empties views, so their length tells all. */
  #room(end: number): Uint32Array {
    if (end > this.#words.byteLength) this.#renew(end);
    return this.#words;
  }

  #renew(end: number): void {
    const { memory } = this.#kernel;
    const missing = end - memory.buffer.byteLength;
    if (missing > 0) grow(memory, Math.ceil(missing / PAGE_BYTES));
    this.#words = new Uint32Array(memory.buffer);
  }
}

function grow(memory: WasmMemory, pages: number): void {
  try {
    memory.grow(pages);
  } catch (cause) {
    throw new PointsmanError(
      'PM_KV_NO_MEMORY',
      `hashing needs ${pages * PAGE_BYTES} more bytes and gets none`,
      {
        cause,
        details: { bytes: pages * PAGE_BYTES },
      },
    );
  }
}

function aligned(byte: number): number {
  return (byte + ALIGNMENT - 1) & -ALIGNMENT;
}
