// XXH3-64 with a seed in plain TypeScript: 64-bit arithmetic on pairs of int32, no bigint, no allocation. It is the reference
// of the WebAssembly kernel and takes its place where WebAssembly SIMD is refused. Algorithm: xxHash specification,
// github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md.
import {
  byteSwapped,
  FLIP_0,
  FLIP_1_TO_3,
  FLIP_4_TO_8,
  FLIP_9_TO_16,
  LAST_STRIPE,
  MERGE,
  MIDDLE,
  MIDDLE_LAST,
  SECRET,
} from './xxh3-keys.ts';

// The hash in progress. Hashing is synchronous and calls nothing of its caller, so one register is enough, and a mix need
// not return an object. Values stay int32, which V8 keeps unboxed.
let accLo = 0;
let accHi = 0;
/** The eight accumulators above 240 bytes, low word first. */
const lanes = new Int32Array(16);
/** Their start: primes 32-3, 64-1, 64-2, 64-3, 64-4, 32-2, 64-5, 32-1 of the specification. */
const LANES_START = new Int32Array(
  BigUint64Array.of(
    0xc2b2ae3dn,
    0x9e3779b185ebca87n,
    0xc2b2ae3d27d4eb4fn,
    0x165667b19e3779f9n,
    0x85ebca77c2b2ae63n,
    0x85ebca77n,
    0x27d4eb2f165667c5n,
    0x9e3779b1n,
  ).buffer,
);
const STRIPE_BYTES = 64;
/** Stripes between two scrambles: (192 − 64) / 8. */
const STRIPES_PER_ROUND = 16;

/**
 * Hashes `length` bytes of `view` from `offset` and writes the result as (lo, hi) to `out[at]` and `out[at + 1]`.
 * @param keys the seed's table from `xxh3Keys`.
 */
export function xxh3(
  view: DataView,
  offset: number,
  length: number,
  keys: Int32Array,
  out: Uint32Array,
  at: number,
): void {
  if (length <= 16) upTo16(view, offset, length, keys);
  else if (length <= 128) upTo128(view, offset, length, keys);
  else if (length <= 240) upTo240(view, offset, length, keys);
  else above240(view, offset, length, keys);
  out[at] = accLo;
  out[at + 1] = accHi;
}

/** The 9–16 branch for 16 bytes given as four words: one step of the hash chain. Same output as {@link xxh3}. */
export function xxh3Of16(
  firstLo: number,
  firstHi: number,
  secondLo: number,
  secondHi: number,
  keys: Int32Array,
  out: Uint32Array,
  at: number,
): void {
  nineTo16(firstLo, firstHi, secondLo, secondHi, 16, keys);
  out[at] = accLo;
  out[at + 1] = accHi;
}

function upTo16(view: DataView, offset: number, length: number, keys: Int32Array): void {
  if (length > 8) {
    const end = offset + length;
    nineTo16(
      word(view, offset),
      word(view, offset + 4),
      word(view, end - 8),
      word(view, end - 4),
      length,
      keys,
    );
  } else if (length >= 4) {
    accLo = word(view, offset + length - 4) ^ keys[FLIP_4_TO_8]!;
    accHi = word(view, offset) ^ keys[FLIP_4_TO_8 + 1]!;
    fourTo8Finish(length);
  } else if (length > 0) {
    const first = view.getUint8(offset);
    const middle = view.getUint8(offset + (length >> 1));
    const last = view.getUint8(offset + length - 1);
    accLo = ((first << 16) | (middle << 24) | last | (length << 8)) ^ keys[FLIP_1_TO_3]!;
    accHi = keys[FLIP_1_TO_3 + 1]!;
    xxh64Avalanche();
  } else {
    accLo = keys[FLIP_0]!;
    accHi = keys[FLIP_0 + 1]!;
    xxh64Avalanche();
  }
}

function fourTo8Finish(length: number): void {
  const lo = accLo;
  const hi = accHi;
  // h ^= rotl(h, 49) ^ rotl(h, 24); a rotation by 49 is one by 17 with the halves exchanged.
  accLo = lo ^ ((hi << 17) | (lo >>> 15)) ^ ((lo << 24) | (hi >>> 8));
  accHi = hi ^ ((lo << 17) | (hi >>> 15)) ^ ((hi << 24) | (lo >>> 8));
  multiply(0x1e98df25, 0x9fb21c65);
  // h ^= (h >> 35) + length; the shifted value has 29 bits, so the sum has no carry.
  accLo ^= (accHi >>> 3) + length;
  multiply(0x1e98df25, 0x9fb21c65);
  const carried = (accLo >>> 28) | (accHi << 4);
  accHi ^= accHi >>> 28;
  accLo ^= carried;
}

function nineTo16(
  firstLo: number,
  firstHi: number,
  lastLo: number,
  lastHi: number,
  length: number,
  keys: Int32Array,
): void {
  const aLo = firstLo ^ keys[FLIP_9_TO_16]!;
  const aHi = firstHi ^ keys[FLIP_9_TO_16 + 1]!;
  const bLo = lastLo ^ keys[FLIP_9_TO_16 + 2]!;
  const bHi = lastHi ^ keys[FLIP_9_TO_16 + 3]!;
  accLo = length;
  accHi = 0;
  add(byteSwapped(aHi) | 0, byteSwapped(aLo) | 0);
  add(bLo, bHi);
  addFoldedProduct(aLo, aHi, bLo, bHi);
  avalanche();
}

function upTo128(view: DataView, offset: number, length: number, keys: Int32Array): void {
  startWithLength(length);
  const end = offset + length;
  for (let pair = (length - 1) >> 5; pair >= 0; pair -= 1) {
    addMix(view, offset + 16 * pair, keys, SECRET + 8 * pair);
    addMix(view, end - 16 * (pair + 1), keys, SECRET + 8 * pair + 4);
  }
  avalanche();
}

function upTo240(view: DataView, offset: number, length: number, keys: Int32Array): void {
  startWithLength(length);
  for (let round = 0; round < 8; round += 1) addMix(view, offset + 16 * round, keys, SECRET + 4 * round);
  avalanche();
  for (let round = 8; round < length >> 4; round += 1) {
    addMix(view, offset + 16 * round, keys, MIDDLE + 4 * (round - 8));
  }
  addMix(view, offset + length - 16, keys, MIDDLE_LAST);
  avalanche();
}

function above240(view: DataView, offset: number, length: number, keys: Int32Array): void {
  lanes.set(LANES_START);
  const stripes = Math.floor((length - 1) / STRIPE_BYTES);
  for (let stripe = 0; stripe < stripes; stripe += 1) {
    const inRound = stripe % STRIPES_PER_ROUND;
    addStripe(view, offset + STRIPE_BYTES * stripe, keys, SECRET + 2 * inRound);
    if (inRound === STRIPES_PER_ROUND - 1) scramble(keys);
  }
  addStripe(view, offset + length - STRIPE_BYTES, keys, LAST_STRIPE);
  startWithLength(length);
  for (let lane = 0; lane < 16; lane += 4) {
    addFoldedProduct(
      lanes[lane]! ^ keys[MERGE + lane]!,
      lanes[lane + 1]! ^ keys[MERGE + lane + 1]!,
      lanes[lane + 2]! ^ keys[MERGE + lane + 2]!,
      lanes[lane + 3]! ^ keys[MERGE + lane + 3]!,
    );
  }
  avalanche();
}

/** Each u64 of the stripe goes to its neighbour lane as it is, and to its own lane as the product of its keyed halves. */
function addStripe(view: DataView, offset: number, keys: Int32Array, key: number): void {
  for (let lane = 0; lane < 16; lane += 2) {
    const lo = word(view, offset + 4 * lane);
    const hi = word(view, offset + 4 * lane + 4);
    addToLane(lane ^ 2, lo, hi);
    const keyedLo = lo ^ keys[key + lane]!;
    const keyedHi = hi ^ keys[key + lane + 1]!;
    addToLane(lane, Math.imul(keyedLo, keyedHi), mulHigh(keyedLo, keyedHi));
  }
}

function addToLane(lane: number, lo: number, hi: number): void {
  const sum = (lanes[lane]! + lo) | 0;
  lanes[lane + 1] = lanes[lane + 1]! + hi + (sum >>> 0 < lo >>> 0 ? 1 : 0);
  lanes[lane] = sum;
}

function scramble(keys: Int32Array): void {
  for (let lane = 0; lane < 16; lane += 2) {
    accLo = lanes[lane]! ^ (lanes[lane + 1]! >>> 15) ^ keys[SECRET + 32 + lane]!;
    accHi = lanes[lane + 1]! ^ keys[SECRET + 32 + lane + 1]!;
    multiply(0x9e3779b1, 0);
    lanes[lane] = accLo;
    lanes[lane + 1] = accHi;
  }
}

function word(view: DataView, offset: number): number {
  return view.getInt32(offset, true);
}

/** acc = length × prime 64-1. */
function startWithLength(length: number): void {
  accLo = length;
  accHi = 0;
  multiply(0x85ebca87, 0x9e3779b1);
}

/** acc += fold of the product of 16 bytes of input, each half xor-ed with its key. */
function addMix(view: DataView, offset: number, keys: Int32Array, key: number): void {
  addFoldedProduct(
    word(view, offset) ^ keys[key]!,
    word(view, offset + 4) ^ keys[key + 1]!,
    word(view, offset + 8) ^ keys[key + 2]!,
    word(view, offset + 12) ^ keys[key + 3]!,
  );
}

/** acc += low half xor high half of the 128-bit product a × b. */
function addFoldedProduct(aLo: number, aHi: number, bLo: number, bHi: number): void {
  const crossA = Math.imul(aHi, bLo);
  const crossB = Math.imul(aLo, bHi);
  // Words 1 to 3 of the product; the sums of up to four u32 are exact in a double.
  const word1 = (mulHigh(aLo, bLo) >>> 0) + (crossA >>> 0) + (crossB >>> 0);
  const word2 =
    (mulHigh(aHi, bLo) >>> 0) +
    (mulHigh(aLo, bHi) >>> 0) +
    (Math.imul(aHi, bHi) >>> 0) +
    Math.floor(word1 / 4294967296);
  const word3 = mulHigh(aHi, bHi) + Math.floor(word2 / 4294967296);
  add(Math.imul(aLo, bLo) ^ word2, word1 ^ word3);
}

function add(lo: number, hi: number): void {
  const sum = (accLo + lo) | 0;
  accHi = (accHi + hi + (sum >>> 0 < lo >>> 0 ? 1 : 0)) | 0;
  accLo = sum;
}

/** acc ×= the given 64-bit constant. */
function multiply(lo: number, hi: number): void {
  accHi = (mulHigh(accLo, lo) + Math.imul(accLo, hi) + Math.imul(accHi, lo)) | 0;
  accLo = Math.imul(accLo, lo);
}

/** High 32 bits of the product of two u32, from four products of 16-bit halves. */
function mulHigh(a: number, b: number): number {
  const aLo = a & 0xffff;
  const aHi = a >>> 16;
  const bLo = b & 0xffff;
  const bHi = b >>> 16;
  const upper = (Math.imul(aHi, bLo) + (Math.imul(aLo, bLo) >>> 16)) | 0;
  const lower = (Math.imul(aLo, bHi) + (upper & 0xffff)) | 0;
  return (Math.imul(aHi, bHi) + (upper >>> 16) + (lower >>> 16)) | 0;
}

function avalanche(): void {
  accLo ^= accHi >>> 5;
  multiply(0x9e3779f9, 0x16566791);
  accLo ^= accHi;
}

/** The final mix of XXH64, which the branches up to 3 bytes use. */
function xxh64Avalanche(): void {
  accLo ^= accHi >>> 1;
  multiply(0x27d4eb4f, 0xc2b2ae3d);
  const carried = (accLo >>> 29) | (accHi << 3);
  accHi ^= accHi >>> 29;
  accLo ^= carried;
  multiply(0x9e3779f9, 0x165667b1);
  accLo ^= accHi;
}
