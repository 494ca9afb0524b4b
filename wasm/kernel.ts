// The block-hash kernel: XXH3-64 of every block of a prompt and the chain over them, one call per prompt.
// Algorithm: xxHash specification, github.com/Cyan4973/xxHash (BSD-2-Clause). The plain TypeScript twin is src/kv/hashing.
import { PAIRED, prepare } from './secret';
import { PRIME64_1, avalanche, chainStep, foldedProducts, hashAny } from './xxh3';

/**
 * Hashes `blocks` blocks of `bytes` bytes each from `tokens`: local hashes to `local`, chained ones to `sequence`,
 * both u64 per block. The first sequence hash is the first local hash.
 */
export function hashPrompt(
  tokens: usize,
  blocks: i32,
  bytes: i32,
  seedLo: u32,
  seedHi: u32,
  local: usize,
  sequence: usize,
): void {
  if (blocks <= 0) return;
  prepare(((seedHi as u64) << 32) | seedLo);
  if (blocks == 1 || bytes <= 16 || bytes > 128) hashOneByOne(tokens, blocks, bytes, local, sequence);
  else hashInPairs(tokens, blocks, bytes, local, sequence);
}

/**
 * Sequence hashes of `count` local hashes behind a parent (`hasParent` 0: the chain starts with the first local hash).
 */
export function chain(parentLo: u32, parentHi: u32, hasParent: i32, local: usize, count: i32, out: usize): void {
  let done = 0;
  let hash = ((parentHi as u64) << 32) | parentLo;
  if (!hasParent) {
    if (count <= 0) return;
    hash = load<u64>(local);
    store<u64>(out, hash);
    done = 1;
  }
  for (; done < count; done++) {
    hash = chainStep(hash, load<u64>(local + ((done as usize) << 3)));
    store<u64>(out + ((done as usize) << 3), hash);
  }
}

/** Hashes `length` bytes at `input`; the result is the u64 at `out`. */
export function hashBytes(input: usize, length: i32, seedLo: u32, seedHi: u32, out: usize): void {
  prepare(((seedHi as u64) << 32) | seedLo);
  store<u64>(out, hashAny(input, length));
}

/** First free byte of linear memory: where the caller may lay its arrays. */
export function heapBase(): usize {
  return __heap_base;
}

/** Blocks of any length, one after the other. */
function hashOneByOne(tokens: usize, blocks: i32, bytes: i32, local: usize, sequence: usize): void {
  let own = hashAny(tokens, bytes);
  let hash = own;
  store<u64>(local, own);
  store<u64>(sequence, own);
  for (let left = blocks - 1; left > 0; left--) {
    tokens += bytes;
    local += 8;
    sequence += 8;
    own = hashAny(tokens, bytes);
    hash = chainStep(hash, own);
    store<u64>(local, own);
    store<u64>(sequence, hash);
  }
}

/**
 * Two or more blocks of 17 to 128 bytes, two at a time: block A in the low 64-bit lane, block B in the high one. Each turn
 * mixes the next pair, and finishes and chains the pair before it; neither waits for the other, so the processor overlaps them.
 */
@inline
function hashInPairs(tokens: usize, blocks: i32, bytes: i32, local: usize, sequence: usize): void {
  let hash: u64 = 0;
  let pair = mixedPair(tokens, bytes);
  let left = blocks;
  do {
    tokens += 2 * bytes;
    const next = left >= 4 ? mixedPair(tokens, bytes) : pair;
    const first = avalanche(v128.extract_lane<u64>(pair, 0));
    const second = avalanche(v128.extract_lane<u64>(pair, 1));
    store<u64>(local, first);
    store<u64>(local, second, 8);
    hash = left == blocks ? first : chainStep(hash, first);
    store<u64>(sequence, hash);
    hash = chainStep(hash, second);
    store<u64>(sequence, hash, 8);
    local += 16;
    sequence += 16;
    left -= 2;
    pair = next;
  } while (left >= 2);
  if (left > 0) {
    const own = hashAny(tokens, bytes);
    store<u64>(local, own);
    store<u64>(sequence, chainStep(hash, own));
  }
}

/** The sums of all mixes of two adjacent blocks, before the avalanche. */
@inline
function mixedPair(block: usize, bytes: i32): v128 {
  let sum = i64x2.splat((bytes as u64) * PRIME64_1);
  let end = block + bytes;
  // A loop of two mixes, not unrolled code: V8 would interleave all mixes of a pair and spill most of them to the stack.
  let key = PAIRED;
  const keysEnd = PAIRED + 2 * bytes;
  do {
    end -= 16;
    sum = i64x2.add(sum, mixTwo(block, block + bytes, key));
    sum = i64x2.add(sum, mixTwo(end, end + bytes, key + 32));
    block += 16;
    key += 64;
  } while (key < keysEnd);
  return sum;
}

/** A mix of 16 bytes at `a` in the low lane and of 16 bytes at `b` in the high one, with the same key in paired layout. */
@inline
function mixTwo(a: usize, b: usize, key: usize): v128 {
  const fromA = v128.load(a);
  const fromB = v128.load(b);
  const x = v128.xor(v128.shuffle<u32>(fromA, fromB, 0, 4, 1, 5), v128.load(key));
  const y = v128.xor(v128.shuffle<u32>(fromA, fromB, 2, 6, 3, 7), v128.load(key, 16));
  return foldedProducts(x, y);
}
