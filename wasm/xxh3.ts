// XXH3-64 of one input of any length, and the step of the hash chain.
import { MIDDLE, PLAIN, SECRET, seed } from './secret';

const PRIME32_1: u64 = 0x9e3779b1;
const PRIME32_2: u64 = 0x85ebca77;
const PRIME32_3: u64 = 0xc2b2ae3d;
export const PRIME64_1: u64 = 0x9e3779b185ebca87;
const PRIME64_2: u64 = 0xc2b2ae3d27d4eb4f;
const PRIME64_3: u64 = 0x165667b19e3779f9;
const PRIME64_4: u64 = 0x85ebca77c2b2ae63;
const PRIME64_5: u64 = 0x27d4eb2f165667c5;
const RRMXMX: u64 = 0x9fb21c651e98df25;
const AVALANCHE: u64 = 0x165667919e3779f9;
const CHAIN_SEED: u64 = 1337;
// The flips of 9 to 16 bytes without seed: plain secret bytes 24 xor 32, and 40 xor 48.
const FLIP_1: u64 = 0x1f67b3b7a4a44072 ^ 0x78e5c0cc4ee679cb;
const FLIP_2: u64 = 0x2172ffcc7dd05a82 ^ 0x8e2443f7744608b8;

/** Hashes `length` bytes at `input` with the seed last prepared. */
export function hashAny(input: usize, length: i32): u64 {
  if (length <= 16) return upTo16(input, length);
  if (length <= 128) return upTo128(input, length);
  if (length <= 240) return upTo240(input, length);
  return above240(input, length);
}

/** XXH3 of the 16 bytes (parent, own) with seed 1337. */
@inline
export function chainStep(parent: u64, own: u64): u64 {
  return nineTo16(parent, own, 16, CHAIN_SEED);
}

@inline
export function avalanche(h: u64): u64 {
  h ^= h >> 37;
  h *= AVALANCHE;
  return h ^ (h >> 32);
}

/** Low half xor high half of the 128-bit product; WebAssembly has no multiply-high, so it is made of four 32-bit products. */
@inline
export function foldedProduct(a: u64, b: u64): u64 {
  const aLow = a & 0xffffffff;
  const bLow = b & 0xffffffff;
  const aHigh = a >> 32;
  const bHigh = b >> 32;
  const highLow = aHigh * bLow;
  const middle = ((aLow * bLow) >> 32) + (highLow & 0xffffffff) + aLow * bHigh;
  return ((highLow >> 32) + (middle >> 32) + aHigh * bHigh) ^ (a * b);
}

/**
 * The same for two products, one per 64-bit lane. Operands are laid out as (A low, B low, A high, B high), so that extended
 * multiplies of their lower and upper halves give all four 32 x 32 products.
 */
@inline
export function foldedProducts(x: v128, y: v128): v128 {
  const mask = i64x2.splat(0xffffffff);
  const crossed = v128.shuffle<u32>(y, y, 2, 3, 0, 1);
  const lowLow = i64x2.extmul_low_i32x4_u(x, y);
  const highHigh = i64x2.extmul_high_i32x4_u(x, y);
  const lowHigh = i64x2.extmul_low_i32x4_u(x, crossed);
  const highLow = i64x2.extmul_high_i32x4_u(x, crossed);
  const middle = i64x2.add(i64x2.add(i64x2.shr_u(lowLow, 32), v128.and(highLow, mask)), lowHigh);
  const upper = i64x2.add(i64x2.add(i64x2.shr_u(highLow, 32), i64x2.shr_u(middle, 32)), highHigh);
  const lower = v128.or(i64x2.shl(middle, 32), v128.and(lowLow, mask));
  return v128.xor(upper, lower);
}

/** Folded product of `a`'s two lanes in the low lane, of `b`'s in the high one. */
@inline
function foldLanes(a: v128, b: v128): v128 {
  return foldedProducts(v128.shuffle<u32>(a, b, 0, 4, 1, 5), v128.shuffle<u32>(a, b, 2, 6, 3, 7));
}

@inline
function sumOfLanes(pair: v128): u64 {
  return v128.extract_lane<u64>(pair, 0) + v128.extract_lane<u64>(pair, 1);
}

@inline
function nineTo16(first: u64, last: u64, length: u64, withSeed: u64): u64 {
  const low = first ^ (FLIP_1 + withSeed);
  const high = last ^ (FLIP_2 - withSeed);
  return avalanche(length + bswap<u64>(low) + high + foldedProduct(low, high));
}

function upTo16(input: usize, length: i32): u64 {
  const end = input + length;
  if (length > 8) return nineTo16(load<u64>(input), load<u64>(end - 8), length, seed());
  if (length >= 4) {
    const swapped = seed() ^ ((bswap<u32>(seed() as u32) as u64) << 32);
    const flip = (load<u64>(PLAIN, 8) ^ load<u64>(PLAIN, 16)) - swapped;
    let h = ((load<u32>(end - 4) as u64) + ((load<u32>(input) as u64) << 32)) ^ flip;
    h ^= rotl<u64>(h, 49) ^ rotl<u64>(h, 24);
    h *= RRMXMX;
    h ^= (h >> 35) + length;
    h *= RRMXMX;
    return h ^ (h >> 28);
  }
  if (length > 0) {
    const first = load<u8>(input) as u32;
    const middle = load<u8>(input + (length >> 1)) as u32;
    const last = load<u8>(end - 1) as u32;
    const combined = (first << 16) | (middle << 24) | last | (length << 8);
    const flip = ((load<u32>(PLAIN) ^ load<u32>(PLAIN, 4)) as u64) + seed();
    return xxh64Avalanche((combined as u64) ^ flip);
  }
  return xxh64Avalanche(seed() ^ load<u64>(PLAIN, 56) ^ load<u64>(PLAIN, 64));
}

/** The final mix of XXH64, which the branches up to 3 bytes use. */
function xxh64Avalanche(h: u64): u64 {
  h ^= h >> 33;
  h *= PRIME64_2;
  h ^= h >> 29;
  h *= PRIME64_3;
  return h ^ (h >> 32);
}

@inline
function mix(input: usize, key: usize): u64 {
  return foldedProduct(load<u64>(input) ^ load<u64>(key), load<u64>(input, 8) ^ load<u64>(key, 8));
}

function upTo128(input: usize, length: i32): u64 {
  let h = (length as u64) * PRIME64_1;
  let end = input + length;
  let key = SECRET;
  for (let left = length; left > 0; left -= 32) {
    end -= 16;
    h += mix(input, key) + mix(end, key + 16);
    input += 16;
    key += 32;
  }
  return avalanche(h);
}

function upTo240(input: usize, length: i32): u64 {
  let pairs = mix32(input, SECRET);
  for (let at: usize = 32; at < 128; at += 32) pairs = i64x2.add(pairs, mix32(input + at, SECRET + at));
  let h = avalanche((length as u64) * PRIME64_1 + sumOfLanes(pairs));
  const whole = (length & ~15) as usize;
  for (let at: usize = 128; at < whole; at += 16) h += mix(input + at, MIDDLE + at - 128);
  h += mix(input + length - 16, MIDDLE + 112);
  return avalanche(h);
}

/** Two mixes of 16 bytes each, the first in the low lane. */
@inline
function mix32(input: usize, key: usize): v128 {
  return foldLanes(keyed(v128.load(input), key), keyed(v128.load(input, 16), key + 16));
}

/** Stripes of 64 bytes onto eight accumulators, two to a vector; after every 16 stripes the accumulators are scrambled. */
function above240(input: usize, length: i32): u64 {
  let acc0 = i64x2(PRIME32_3, PRIME64_1);
  let acc1 = i64x2(PRIME64_2, PRIME64_3);
  let acc2 = i64x2(PRIME64_4, PRIME32_2);
  let acc3 = i64x2(PRIME64_5, PRIME32_1);
  const last = input + length - 64;
  for (let stripes = (length - 1) >> 6, inRound: usize = 0; stripes > 0; stripes--) {
    const key = SECRET + (inRound << 3);
    acc0 = accumulate(acc0, input, key);
    acc1 = accumulate(acc1, input + 16, key + 16);
    acc2 = accumulate(acc2, input + 32, key + 32);
    acc3 = accumulate(acc3, input + 48, key + 48);
    input += 64;
    if (++inRound == 16) {
      acc0 = scramble(acc0, SECRET + 128);
      acc1 = scramble(acc1, SECRET + 144);
      acc2 = scramble(acc2, SECRET + 160);
      acc3 = scramble(acc3, SECRET + 176);
      inRound = 0;
    }
  }
  acc0 = accumulate(acc0, last, SECRET + 121);
  acc1 = accumulate(acc1, last + 16, SECRET + 137);
  acc2 = accumulate(acc2, last + 32, SECRET + 153);
  acc3 = accumulate(acc3, last + 48, SECRET + 169);
  const merged = i64x2.add(
    foldLanes(keyed(acc0, SECRET + 11), keyed(acc1, SECRET + 27)),
    foldLanes(keyed(acc2, SECRET + 43), keyed(acc3, SECRET + 59)),
  );
  return avalanche((length as u64) * PRIME64_1 + sumOfLanes(merged));
}

/** Adds the input to the neighbour lane and the product of the keyed input's halves to its own. */
@inline
function accumulate(acc: v128, input: usize, key: usize): v128 {
  const data = v128.load(input);
  const mixed = keyed(data, key);
  const low = v128.shuffle<u32>(mixed, mixed, 0, 2, 0, 2);
  const high = v128.shuffle<u32>(mixed, mixed, 1, 3, 1, 3);
  const swapped = v128.shuffle<u64>(data, data, 1, 0);
  return i64x2.add(i64x2.add(acc, swapped), i64x2.extmul_low_i32x4_u(low, high));
}

@inline
function scramble(acc: v128, key: usize): v128 {
  return i64x2.mul(keyed(v128.xor(acc, i64x2.shr_u(acc, 47)), key), i64x2.splat(PRIME32_1));
}

@inline
function keyed(value: v128, key: usize): v128 {
  return v128.xor(value, v128.load(key));
}
