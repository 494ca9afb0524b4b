import { readFileSync } from 'node:fs';
import { xxh3 } from '@node-rs/xxhash';
import { describe, expect, it } from 'vitest';
import { blockHashSeed } from './block-hash-seed.ts';
import { ROUTER_SEED } from './router-seed.ts';
import { u64ToBigInt } from './u64.ts';

interface Vectors {
  readonly seeds: readonly { loraName: string | null; cacheSalt: string | null; seed: string }[];
}

const vectors: Vectors = JSON.parse(
  readFileSync(new URL('./fixtures/xxh3-vectors.json', import.meta.url), 'utf8'),
);

const formula = (lora: string, salt: string): bigint =>
  BigInt.asUintN(
    64,
    1337n + (lora === '' ? 0n : xxh3.xxh64(lora, 0n)) + (salt === '' ? 0n : xxh3.xxh64(salt, 1n)),
  );

describe('blockHashSeed', () => {
  it.each(vectors.seeds)('is $seed for adapter $loraName and cache salt $cacheSalt', ({ seed, ...scope }) => {
    expect(u64ToBigInt(blockHashSeed(scope))).toBe(BigInt(seed));
  });

  it('is 1337 without adapter and cache salt, be they absent, null or empty', () => {
    for (const absent of [undefined, null, '']) {
      expect(blockHashSeed({ loraName: absent, cacheSalt: absent })).toEqual({ lo: 1337, hi: 0 });
    }
    expect(blockHashSeed({})).toBe(ROUTER_SEED);
  });

  it('hashes names as UTF-8', () => {
    expect(u64ToBigInt(blockHashSeed({ loraName: 'Grüße 🚂' }))).toBe(formula('Grüße 🚂', ''));
  });

  it('does not mistake a pair of names for another with the same letters', () => {
    for (const [lora, salt] of [
      ['ab', 'c'],
      ['a', 'bc'],
      ['abc', ''],
      ['', 'abc'],
      ['1 a', 'b'],
      ['1', ' ab'],
    ] as const) {
      expect(u64ToBigInt(blockHashSeed({ loraName: lora, cacheSalt: salt }))).toBe(formula(lora, salt));
    }
  });

  it('stays right when more pairs come by than are remembered, and for names too long to be remembered', () => {
    for (let round = 0; round < 2; round += 1) {
      for (let i = 0; i < 600; i += 1) {
        expect(u64ToBigInt(blockHashSeed({ cacheSalt: `tenant-${i}` }))).toBe(formula('', `tenant-${i}`));
      }
      const long = 'x'.repeat(5000 + round);
      expect(u64ToBigInt(blockHashSeed({ loraName: long }))).toBe(formula(long, ''));
    }
  });

  it('answers a remembered pair with the same value', () => {
    const first = blockHashSeed({ loraName: 'again' });
    expect(blockHashSeed({ loraName: 'again', cacheSalt: '' })).toBe(first);
  });
});
