// Everything XXH3-64 derives from its seed before it sees input: the secret with the seed mixed in, laid out as 32-bit words
// in the order the length branches read it. One table per seed, kept for the seeds last used.
// Secret and derivation: xxHash specification and reference implementation, github.com/Cyan4973/xxHash (BSD-2-Clause).
import type { U64 } from './types.ts';

/** The 192-byte default secret of XXH3. */
const SECRET_HEX =
  'b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221' +
  'b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8' +
  'a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb' +
  '170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e';

/** Word index of the seeded secret: 48 words, read in steps of 16 bytes by 17–128 and of 8 bytes above 240. */
export const SECRET = 0;
/** Word index of the keys of 129–240 from round 8 on: 7 rounds read at secret byte 3, and the last mix at byte 119. */
export const MIDDLE = 48;
/** Word index of the key of that last mix. */
export const MIDDLE_LAST: number = MIDDLE + 28;
/** Word index of the key of the last stripe above 240: seeded secret from byte 121. */
export const LAST_STRIPE = 80;
/** Word index of the keys that merge the accumulators above 240: seeded secret from byte 11. */
export const MERGE = 96;
/** Word indexes of the flips of the shortest branches, one u64 each; 9–16 has two. */
export const FLIP_9_TO_16 = 112;
export const FLIP_4_TO_8 = 116;
export const FLIP_1_TO_3 = 118;
export const FLIP_0 = 120;
const WORDS = 122;

/** Tables kept: a router meets few seeds (one per pair of adapter and cache salt) again and again. */
const MAX_TABLES = 64;

const plain = new DataView(
  Uint8Array.from(SECRET_HEX.match(/../g)!, (byte) => Number.parseInt(byte, 16)).buffer,
);
const tables = new Map<string, Int32Array>();

/** The key table of a seed; shared, so it must not be written to. */
export function xxh3Keys(seed: U64): Int32Array {
  const name = `${seed.lo >>> 0},${seed.hi >>> 0}`;
  const known = tables.get(name);
  if (known !== undefined) {
    // Re-inserting keeps the Map in order of last use.
    tables.delete(name);
    tables.set(name, known);
    return known;
  }
  for (const oldest of tables.keys()) {
    if (tables.size < MAX_TABLES) break;
    tables.delete(oldest);
  }
  const fresh = deriveKeys((BigInt(seed.hi >>> 0) << 32n) | BigInt(seed.lo >>> 0));
  tables.set(name, fresh);
  return fresh;
}

function deriveKeys(seed: bigint): Int32Array {
  const secret = (byte: number): bigint => plain.getBigUint64(byte, true);
  const bytes = new DataView(new ArrayBuffer(4 * WORDS));
  const put = (word: number, value: bigint): void =>
    bytes.setBigUint64(4 * word, BigInt.asUintN(64, value), true);
  for (let byte = 0; byte < 192; byte += 16) {
    put(SECRET + byte / 4, secret(byte) + seed);
    put(SECRET + byte / 4 + 2, secret(byte + 8) - seed);
  }
  for (let round = 0; round < 8; round += 1) {
    const byte = round < 7 ? 3 + 16 * round : 119;
    put(MIDDLE + 4 * round, secret(byte) + seed);
    put(MIDDLE + 4 * round + 2, secret(byte + 8) - seed);
  }
  for (let byte = 0; byte < 64; byte += 8) {
    put(LAST_STRIPE + byte / 4, bytes.getBigUint64(4 * SECRET + 121 + byte, true));
    put(MERGE + byte / 4, bytes.getBigUint64(4 * SECRET + 11 + byte, true));
  }
  put(FLIP_9_TO_16, (secret(24) ^ secret(32)) + seed);
  put(FLIP_9_TO_16 + 2, (secret(40) ^ secret(48)) - seed);
  put(
    FLIP_4_TO_8,
    (secret(8) ^ secret(16)) - (seed ^ (BigInt(byteSwapped(Number(seed & 0xffffffffn))) << 32n)),
  );
  put(FLIP_1_TO_3, BigInt((plain.getUint32(0, true) ^ plain.getUint32(4, true)) >>> 0) + seed);
  put(FLIP_0, secret(56) ^ secret(64) ^ seed);
  return new Int32Array(bytes.buffer);
}

/** The four bytes of a word in reverse order, unsigned. */
export function byteSwapped(word: number): number {
  return ((word << 24) | ((word & 0xff00) << 8) | ((word >>> 8) & 0xff00) | (word >>> 24)) >>> 0;
}
