// Block hashes of prompts and events in every form: plain, with multimodal items, and of engines that keep pairs of tokens (EAGLE).
// All forms rest on the plain hasher, so that the kernel stays small.
import { type MultimodalItems, sortedItems, withPadValues } from './multimodal.ts';
import type { BlockHasher, HashPairs, PromptHashes, U64 } from './types.ts';

/** What makes blocks more than their tokens. */
export interface BlockForm {
  /** Blocks reach one token further than they step (EAGLE): block i covers tokens [i·B, i·B + B]. Default false. */
  readonly bigrams?: boolean | undefined;
  /** Items per block; absent = none. Fewer entries than blocks: none for the others. */
  readonly multimodal?: MultimodalItems | undefined;
  /**
   * The model's placeholder token of images, where its engine hashes pad values in its place: then items change tokens, and not
   * the bytes behind them. Absent or null = the engine mixes item hashes in.
   */
  readonly placeholder?: number | null | undefined;
}

/** How many blocks so many tokens have. */
export function blockCount(tokens: number, blockSize: number, bigrams: boolean): number {
  return Math.floor(Math.max(0, bigrams ? tokens - 1 : tokens) / blockSize);
}

/**
 * Local and sequence hashes of all full blocks.
 * @param seed from `blockHashSeed`.
 * @throws as `BlockHasher.hashPrompt`; with bigrams the limit of tokens counts the overlaps too.
 */
export function hashBlocks(
  hasher: BlockHasher,
  tokens: Uint32Array,
  blockSize: number,
  seed: U64,
  form: BlockForm = {},
): PromptHashes {
  const { bigrams = false, multimodal } = form;
  const windows = bigrams ? overlapping(tokens, blockSize) : tokens;
  const width = bigrams ? blockSize + 1 : blockSize;
  const plain = hasher.hashPrompt(windows, width, seed);
  if (multimodal === undefined || !multimodal.some((items) => items !== null)) return plain;
  const { blocks, local, sequence } = plain;
  for (let block = 0; block < blocks; block += 1) {
    const items = multimodal[block] ?? null;
    if (items === null || items.length === 0) continue;
    const window = windows.subarray(block * width, (block + 1) * width);
    const hash = hasher.hashBytes(bytesOf(window, items, form.placeholder ?? null), seed);
    local[2 * block] = hash.lo;
    local[2 * block + 1] = hash.hi;
  }
  hasher.chain(null, local, sequence);
  return plain;
}

/** Each block's tokens and the one behind it, one block after the other. */
function overlapping(tokens: Uint32Array, blockSize: number): Uint32Array {
  const blocks = blockCount(tokens.length, blockSize, true);
  const windows = new Uint32Array(blocks * (blockSize + 1));
  for (let block = 0; block < blocks; block += 1) {
    const from = block * blockSize;
    windows.set(tokens.subarray(from, from + blockSize + 1), block * (blockSize + 1));
  }
  return windows;
}

/** What a block with items is hashed of. */
function bytesOf(window: Uint32Array, items: HashPairs, placeholder: number | null): Uint8Array {
  if (placeholder !== null) return new Uint8Array(withPadValues(window, placeholder, items).buffer);
  const sorted = sortedItems(items);
  const words = new Uint32Array(window.length + sorted.length);
  words.set(window);
  words.set(sorted, window.length);
  return new Uint8Array(words.buffer);
}
