// The block hasher in plain TypeScript: oracle of the WebAssembly kernel, and the hasher where WebAssembly SIMD is refused.
import { checkByteLength, checkChain, fullBlocks } from './hash-limits.ts';
import { ROUTER_SEED } from './router-seed.ts';
import type { BlockHasher, HashPairs, PromptHashes, U64 } from './types.ts';
import { xxh3, xxh3Of16 } from './xxh3.ts';
import { xxh3Keys } from './xxh3-keys.ts';

/** A block hasher that needs nothing but JavaScript; ten to thirty times as slow as the kernel. Throws as `createBlockHasher`. */
export function createReferenceHasher(): BlockHasher {
  return { kind: 'typescript', hashPrompt, chain, hashBytes };
}

function hashPrompt(tokens: Uint32Array, blockSize: number, seed: U64): PromptHashes {
  const blocks = fullBlocks(tokens.length, blockSize);
  const keys = xxh3Keys(seed);
  const view = new DataView(tokens.buffer, tokens.byteOffset, tokens.byteLength);
  const both = new Uint32Array(4 * blocks);
  const local = both.subarray(0, 2 * blocks);
  const sequence = both.subarray(2 * blocks);
  const bytes = 4 * blockSize;
  for (let block = 0; block < blocks; block += 1) xxh3(view, block * bytes, bytes, keys, local, 2 * block);
  chain(null, local, sequence);
  return { blocks, local, sequence };
}

function chain(parent: U64 | null, local: HashPairs, out: HashPairs): void {
  checkChain(local, out);
  if (local.length === 0) return;
  const keys = xxh3Keys(ROUTER_SEED);
  if (parent === null) {
    out[0] = local[0]!;
    out[1] = local[1]!;
  } else {
    xxh3Of16(parent.lo, parent.hi, local[0]!, local[1]!, keys, out, 0);
  }
  for (let at = 2; at < local.length; at += 2) {
    xxh3Of16(out[at - 2]!, out[at - 1]!, local[at]!, local[at + 1]!, keys, out, at);
  }
}

function hashBytes(bytes: Uint8Array, seed: U64): U64 {
  checkByteLength(bytes.length);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const out = new Uint32Array(2);
  xxh3(view, 0, bytes.length, xxh3Keys(seed), out, 0);
  return { lo: out[0]!, hi: out[1]! };
}
