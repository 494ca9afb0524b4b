import { readFileSync } from 'node:fs';
import { xxh3 } from '@node-rs/xxhash';
import fc from 'fast-check';
import { createXXHash3 } from 'hash-wasm';
import { describe, expect, it } from 'vitest';
import { createBlockHasher } from './block-hasher.ts';
import { createReferenceHasher } from './reference-hasher.ts';
import type { BlockHasher } from './types.ts';
import { u64FromBigInt, u64ToBigInt } from './u64.ts';

interface Vectors {
  readonly text: readonly { utf8: string; seed: string; hash: string }[];
  readonly countingBytes: readonly { length: number; seed: string; hash: string }[];
}

const vectors: Vectors = JSON.parse(
  readFileSync(new URL('./fixtures/xxh3-vectors.json', import.meta.url), 'utf8'),
);
const seeds = fc.oneof(
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  fc.constantFrom(0n, 1n, 1337n, 2n ** 32n, 2n ** 63n, 2n ** 64n - 1n),
);

function hashOf(hasher: BlockHasher, bytes: Uint8Array, seed: bigint): bigint {
  return u64ToBigInt(hasher.hashBytes(bytes, u64FromBigInt(seed)));
}

/** Bytes with no pattern that a mistake in word order could hide behind. */
function noise(length: number, salt: number): Uint8Array {
  let state = salt | 1;
  return Uint8Array.from({ length }, () => {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9;
    return state >>> 24;
  });
}

describe.each([
  ['kernel', createBlockHasher()],
  ['TypeScript', createReferenceHasher()],
])('XXH3-64 of the %s', (_name, hasher) => {
  it.each(vectors.text)('gives the published hash of "$utf8" with seed $seed', ({ utf8, seed, hash }) => {
    expect(hashOf(hasher, new TextEncoder().encode(utf8), BigInt(seed))).toBe(BigInt(`0x${hash}`));
  });

  it.each(vectors.countingBytes)(
    'gives the known hash of $length counting bytes with seed $seed',
    ({ length, seed, hash }) => {
      const bytes = Uint8Array.from({ length }, (_, i) => i & 255);
      expect(hashOf(hasher, bytes, BigInt(seed))).toBe(BigInt(`0x${hash}`));
    },
  );

  it('agrees with @node-rs/xxhash on every length from 0 to 4,096', () => {
    const bytes = noise(4096, 7);
    const wrong: number[] = [];
    for (let length = 0; length <= 4096; length += 1) {
      const seed = BigInt.asUintN(64, 0x9e3779b97f4a7c15n * BigInt(length * 31 + 1));
      const part = bytes.subarray(0, length);
      if (hashOf(hasher, part, seed) !== xxh3.xxh64(part, seed)) wrong.push(length);
    }
    expect(wrong).toEqual([]);
  });

  it('agrees with hash-wasm on every length from 0 to 600 and around each kilobyte', async () => {
    const bytes = noise(4097, 11);
    const { lo, hi } = u64FromBigInt(0xfedcba98_76543210n);
    const oracle = await createXXHash3(lo, hi);
    const lengths = Array.from({ length: 601 }, (_, i) => i);
    for (const kilobyte of [1024, 2048, 3072, 4096]) {
      for (const shift of [-65, -64, -63, -1, 0, 1]) lengths.push(kilobyte + shift);
    }
    const wrong = lengths.filter((length) => {
      const part = bytes.subarray(0, length);
      const expected = BigInt(`0x${oracle.init().update(part).digest('hex')}`);
      return hashOf(hasher, part, 0xfedcba98_76543210n) !== expected;
    });
    expect(wrong).toEqual([]);
  });

  it('agrees with @node-rs/xxhash on random bytes with random seeds, at any offset of a buffer', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 4096, size: 'max' }), fc.nat(9), seeds, (bytes, skip, seed) => {
        const part = bytes.subarray(Math.min(skip, bytes.length));
        expect(hashOf(hasher, part, seed)).toBe(xxh3.xxh64(part, seed));
      }),
      { numRuns: 150 },
    );
  });

  it('agrees with hash-wasm on random seeds in every length branch', async () => {
    const bytes = noise(1100, 3);
    await fc.assert(
      fc.asyncProperty(seeds, async (seed) => {
        const { lo, hi } = u64FromBigInt(seed);
        const oracle = await createXXHash3(lo, hi);
        for (const length of [
          0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 64, 128, 129, 192, 240, 241, 256, 1024, 1025,
        ]) {
          const part = bytes.subarray(0, length);
          expect(hashOf(hasher, part, seed)).toBe(BigInt(`0x${oracle.init().update(part).digest('hex')}`));
        }
      }),
      { numRuns: 20 },
    );
  });

  it('gives the right hash again after more seeds than are remembered', () => {
    const bytes = noise(300, 5);
    for (let round = 0; round < 3; round += 1) {
      for (let seed = 0n; seed < 200n; seed += 1n) {
        expect(hashOf(hasher, bytes, seed)).toBe(xxh3.xxh64(bytes, seed));
      }
    }
  });

  it('takes the halves of a seed signed or unsigned', () => {
    const bytes = noise(64, 9);
    const unsigned = hasher.hashBytes(bytes, { lo: 0xffffffff, hi: 0x80000000 });
    expect(hasher.hashBytes(bytes, { lo: -1, hi: -0x80000000 })).toEqual(unsigned);
    expect(u64ToBigInt(unsigned)).toBe(xxh3.xxh64(bytes, 0x80000000ffffffffn));
  });
});
