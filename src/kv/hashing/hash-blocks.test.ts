import { xxh3 } from '@node-rs/xxhash';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { blockHashSeed } from './block-hash-seed.ts';
import { createBlockHasher } from './block-hasher.ts';
import { blockCount, hashBlocks } from './hash-blocks.ts';
import { isDigestId, multimodalHash, padValue, sortedItems, withPadValues } from './multimodal.ts';
import { createReferenceHasher } from './reference-hasher.ts';
import { ROUTER_SEED } from './router-seed.ts';
import type { HashPairs } from './types.ts';
import { fromBigUint64Array, toBigUint64Array, u64FromBigInt, u64ToBigInt } from './u64.ts';

const HASHERS = [createBlockHasher(), createReferenceHasher()];
const hex = (pairs: HashPairs): string[] =>
  [...toBigUint64Array(pairs)].map((hash) => hash.toString(16).padStart(16, '0'));
const items = (...hashes: bigint[]): HashPairs => fromBigUint64Array(BigUint64Array.from(hashes));
const upTo = (count: number): Uint32Array => Uint32Array.from({ length: count }, (_, at) => at);

/** The definition, one native call per hash. */
function naive(
  tokens: Uint32Array,
  blockSize: number,
  seed: bigint,
  bigrams: boolean,
  perBlock: readonly (readonly bigint[])[],
): { local: bigint[]; sequence: bigint[] } {
  const local: bigint[] = [];
  const sequence: bigint[] = [];
  const width = bigrams ? blockSize + 1 : blockSize;
  for (let at = 0; at + width <= tokens.length; at += blockSize) {
    const window = new Uint8Array(tokens.slice(at, at + width).buffer);
    const sorted = [...new Set(perBlock[local.length] ?? [])].sort((a, b) => (a < b ? -1 : 1));
    const mixed = new Uint8Array(BigUint64Array.from(sorted).buffer);
    local.push(xxh3.xxh64(Buffer.concat([window, mixed]), seed));
    const before = sequence.at(-1);
    const own = local.at(-1)!;
    sequence.push(
      before === undefined ? own : xxh3.xxh64(new Uint8Array(BigUint64Array.of(before, own).buffer), 1337n),
    );
  }
  return { local, sequence };
}

describe.each(HASHERS)('hashBlocks over $kind', (hasher) => {
  it('gives the published hashes of pairs: windows of one token more than a block steps', () => {
    const plain = hashBlocks(hasher, upTo(6), 2, ROUTER_SEED);
    expect(hex(plain.local)).toEqual(['978612cdf2cc1530', '94ec9bf3aa085260', 'a9298b1dccc343f2']);
    const pairs = hashBlocks(hasher, upTo(6), 2, ROUTER_SEED, { bigrams: true });
    expect(hex(pairs.local)).toEqual(['a19fc43f5c330609', '8a114bc20415accc']);
    expect(pairs.blocks).toBe(2);
  });

  it('gives the published hashes of blocks with items: sorted, behind the tokens', () => {
    const tokens = Uint32Array.of(1, 2, 3, 4);
    const local = (...hashes: bigint[]): string | undefined =>
      hex(hashBlocks(hasher, tokens, 4, ROUTER_SEED, { multimodal: [items(...hashes)] }).local)[0];
    expect(local()).toBe('cb38e4d7fb2dca5c');
    expect(local(42n)).toBe('c24b4634b5656053');
    expect(local(99n, 42n)).toBe('9ed42d25377cb210');
    expect(local(42n, 99n, 42n)).toBe('9ed42d25377cb210');
  });

  it('gives the published hash of a block whose placeholders are pad values', () => {
    const hash = 9533257059414191570n;
    expect(padValue(u64FromBigInt(hash))).toBe(49115154);
    const form = { multimodal: [items(hash)], placeholder: 7 };
    const { local } = hashBlocks(hasher, Uint32Array.of(10, 20, 7, 7), 4, ROUTER_SEED, form);
    expect(hex(local)).toEqual(['00ff601b9099dc2c']);
    const plain = hashBlocks(hasher, Uint32Array.of(10, 20, 49115154, 49115154), 4, ROUTER_SEED);
    expect(local).toEqual(plain.local);
  });

  it('agrees with the definition for any tokens, items, scopes and block sizes, and chains what it mixed', () => {
    const perBlock = fc.array(fc.array(fc.bigInt(0n, 2n ** 64n - 1n), { maxLength: 3 }), { maxLength: 6 });
    const tokens = fc.uint32Array({ maxLength: 60 });
    const scope = fc.record({ loraName: fc.constantFrom(null, 'a'), cacheSalt: fc.constantFrom(null, 't') });
    fc.assert(
      fc.property(
        tokens,
        fc.integer({ min: 1, max: 20 }),
        fc.boolean(),
        perBlock,
        scope,
        (ids, size, bigrams, mm, of) => {
          const seed = blockHashSeed(of);
          const multimodal = mm.map((hashes) => (hashes.length === 0 ? null : items(...hashes)));
          const got = hashBlocks(hasher, ids, size, seed, { bigrams, multimodal });
          const expected = naive(ids, size, u64ToBigInt(seed), bigrams, mm);
          expect([...toBigUint64Array(got.local)]).toEqual(expected.local);
          expect([...toBigUint64Array(got.sequence)]).toEqual(expected.sequence);
          expect(got.blocks).toBe(expected.local.length);
          expect(blockCount(ids.length, size, bigrams)).toBe(expected.local.length);
        },
      ),
      { numRuns: 400 },
    );
  });
});

describe('hashes of multimodal items', () => {
  it('are the first digits of a digest, and XXH3 of any other id', () => {
    expect(u64ToBigInt(multimodalHash('0123456789abcdef'.repeat(4)))).toBe(0x0123456789abcdefn);
    expect(u64ToBigInt(multimodalHash('0123456789ABCDEF'.repeat(4)))).toBe(0x0123456789abcdefn);
    expect(u64ToBigInt(multimodalHash('opaque-renderer-image-0'))).toBe(14437604544409538977n);
    expect(isDigestId('0'.repeat(63))).toBe(false);
    expect(isDigestId(`${'0'.repeat(63)}g`)).toBe(false);
    expect(isDigestId('0'.repeat(65))).toBe(false);
  });

  it('give pad values from one million on', () => {
    expect(padValue({ lo: 0, hi: 9 })).toBe(1_000_000);
    expect(padValue(u64FromBigInt((1n << 30n) | 0xcafen))).toBe(1_000_000 + 0xcafe);
    expect(padValue({ lo: 0xffffffff, hi: 0 })).toBe(1_000_000 + 2 ** 30 - 1);
  });

  it('go to runs of the placeholder in order; runs beyond the last item are its own', () => {
    const tokens = Uint32Array.of(7, 7, 1, 7, 2, 7, 7);
    const padded = withPadValues(tokens, 7, items(5n, 6n));
    expect([...padded]).toEqual([1_000_005, 1_000_005, 1, 1_000_006, 2, 1_000_006, 1_000_006]);
    expect([...tokens]).toEqual([7, 7, 1, 7, 2, 7, 7]);
  });

  it('sort as unsigned numbers, each once', () => {
    const sorted = sortedItems(items(2n ** 63n, 1n, 2n ** 32n, 1n, 2n ** 31n));
    expect([...toBigUint64Array(sorted)]).toEqual([1n, 2n ** 31n, 2n ** 32n, 2n ** 63n]);
  });
});
