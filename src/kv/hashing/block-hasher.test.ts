import { readFileSync } from 'node:fs';
import { xxh3 } from '@node-rs/xxhash';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ErrorCode, type ErrorDetails, PointsmanError, seededRng } from '../../plugin/index.ts';
import { blockHashSeed } from './block-hash-seed.ts';
import { createBlockHasher } from './block-hasher.ts';
import { MAX_HASH_BYTES, MAX_PROMPT_TOKENS } from './hash-limits.ts';
import { createReferenceHasher } from './reference-hasher.ts';
import { ROUTER_SEED } from './router-seed.ts';
import type { HashPairs, U64 } from './types.ts';
import { toBigUint64Array, u64FromBigInt } from './u64.ts';

interface Vectors {
  readonly prompts: readonly {
    from: number;
    count: number;
    block: number;
    loraName: string | null;
    cacheSalt: string | null;
    local: string[];
    sequence: string[] | null;
  }[];
  readonly repeatedTokens: readonly { token: number; count: number; hash: string }[];
  readonly chains: readonly { local: string[]; sequence: string[] }[];
}

const vectors: Vectors = JSON.parse(
  readFileSync(new URL('./fixtures/xxh3-vectors.json', import.meta.url), 'utf8'),
);
const hex = (pairs: HashPairs): string[] =>
  [...toBigUint64Array(pairs)].map((hash) => hash.toString(16).padStart(16, '0'));
const pairsOf = (hashes: readonly bigint[]): HashPairs =>
  Uint32Array.from(hashes.flatMap((hash) => [u64FromBigInt(hash).lo, u64FromBigInt(hash).hi]));

function randomTokens(count: number, seed: number): Uint32Array {
  const rng = seededRng(seed);
  return Uint32Array.from({ length: count }, () => rng.integer(2 ** 32));
}

/** The definition, one native call per hash. */
function naive(
  tokens: Uint32Array,
  blockSize: number,
  seed: bigint,
): { local: bigint[]; sequence: bigint[] } {
  const local: bigint[] = [];
  const bytes = new Uint8Array(tokens.slice().buffer);
  for (let at = 0; at + blockSize <= tokens.length; at += blockSize) {
    local.push(xxh3.xxh64(bytes.subarray(4 * at, 4 * (at + blockSize)), seed));
  }
  return { local, sequence: naiveChain(null, local) };
}

function naiveChain(parent: bigint | null, local: readonly bigint[]): bigint[] {
  const sequence: bigint[] = [];
  let last = parent;
  for (const hash of local) {
    last = last === null ? hash : xxh3.xxh64(new Uint8Array(BigUint64Array.of(last, hash).buffer), 1337n);
    sequence.push(last);
  }
  return sequence;
}

function error(code: ErrorCode, message: string, details: ErrorDetails): PointsmanError {
  return new PointsmanError(code, message, { details });
}

describe.each([
  ['kernel', createBlockHasher],
  ['TypeScript', createReferenceHasher],
] as const)('block hashing in the %s', (_name, create) => {
  const hasher = create();

  it.each(vectors.prompts)(
    'gives the known hashes of tokens from $from, $count long, $block per block, adapter $loraName, salt $cacheSalt',
    ({ from, count, block, loraName, cacheSalt, local, sequence }) => {
      const tokens = Uint32Array.from({ length: count }, (_, i) => from + i);
      const hashes = hasher.hashPrompt(tokens, block, blockHashSeed({ loraName, cacheSalt }));
      expect(hashes.blocks).toBe(local.length);
      expect(hex(hashes.local)).toEqual(local);
      if (sequence !== null) expect(hex(hashes.sequence)).toEqual(sequence);
    },
  );

  it.each(vectors.repeatedTokens)(
    'gives the known hash of token $token, $count times',
    ({ token, count, hash }) => {
      const tokens = new Uint32Array(count).fill(token);
      expect(hex(hasher.hashPrompt(tokens, count, ROUTER_SEED).local)).toEqual([hash]);
    },
  );

  it.each(vectors.chains)('gives the known chain $sequence', ({ local, sequence }) => {
    const pairs = pairsOf(local.map((hash) => BigInt(`0x${hash}`)));
    const out = new Uint32Array(pairs.length);
    hasher.chain(null, pairs, out);
    expect(hex(out)).toEqual(sequence);
  });

  it('hashes every block size from 1 to 300 tokens as the definition says', () => {
    for (let blockSize = 1; blockSize <= 300; blockSize += 1) {
      // 0 to 7 full blocks, mostly with a partial one behind: both halves of a pair, and a last block without partner.
      const tokens = randomTokens((blockSize % 8) * blockSize + (blockSize % 3), blockSize);
      const seed = BigInt.asUintN(64, 0x9e3779b97f4a7c15n * BigInt(blockSize));
      const expected = naive(tokens, blockSize, seed);
      const hashes = hasher.hashPrompt(tokens, blockSize, u64FromBigInt(seed));
      expect(hashes.blocks).toBe(Math.floor(tokens.length / blockSize));
      expect([...toBigUint64Array(hashes.local)]).toEqual(expected.local);
      expect([...toBigUint64Array(hashes.sequence)]).toEqual(expected.sequence);
    }
  });

  it('hashes random prompts as the definition says, whatever the block size, seed and offset of the tokens', () => {
    fc.assert(
      fc.property(
        fc.uint32Array({ maxLength: 700, size: 'max' }),
        fc.oneof(
          fc.integer({ min: 1, max: 300 }),
          fc.constantFrom(1, 2, 4, 5, 8, 16, 31, 32, 33, 48, 60, 61, 64),
        ),
        fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
        fc.nat(3),
        (all, blockSize, seed, skip) => {
          const tokens = all.subarray(Math.min(skip, all.length));
          const expected = naive(tokens, blockSize, seed);
          const hashes = hasher.hashPrompt(tokens, blockSize, u64FromBigInt(seed));
          expect([...toBigUint64Array(hashes.local)]).toEqual(expected.local);
          expect([...toBigUint64Array(hashes.sequence)]).toEqual(expected.sequence);
        },
      ),
      { numRuns: 200 },
    );
  });

  it('continues a chain behind any parent, in place too', () => {
    const u64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
    fc.assert(
      fc.property(fc.option(u64), fc.array(u64, { maxLength: 20 }), (parent, local) => {
        const expected = naiveChain(parent, local);
        const pairs = pairsOf(local);
        const out = new Uint32Array(pairs.length);
        const start: U64 | null = parent === null ? null : u64FromBigInt(parent);
        hasher.chain(start, pairs, out);
        expect([...toBigUint64Array(out)]).toEqual(expected);
        expect(pairs).toEqual(pairsOf(local));
        hasher.chain(start, pairs, pairs);
        expect(pairs).toEqual(out);
      }),
      { numRuns: 200 },
    );
  });

  it('gives the same sequence hashes for a prompt at once and in two parts', () => {
    const tokens = randomTokens(40 * 16, 4);
    const whole = hasher.hashPrompt(tokens, 16, ROUTER_SEED);
    const rest = new Uint32Array(2 * 27);
    const parent = { lo: whole.sequence[2 * 12]!, hi: whole.sequence[2 * 12 + 1]! };
    hasher.chain(parent, whole.local.subarray(2 * 13), rest);
    expect(rest).toEqual(whole.sequence.slice(2 * 13));
  });

  it('leaves a partial last block out, and hashes nothing of a prompt shorter than a block', () => {
    const tokens = randomTokens(50, 1);
    const hashes = hasher.hashPrompt(tokens, 16, ROUTER_SEED);
    expect(hashes).toEqual(hasher.hashPrompt(tokens.subarray(0, 48), 16, ROUTER_SEED));
    expect(hashes.blocks).toBe(3);
    const none = { blocks: 0, local: new Uint32Array(0), sequence: new Uint32Array(0) };
    expect(hasher.hashPrompt(tokens.subarray(0, 15), 16, ROUTER_SEED)).toEqual(none);
    expect(hasher.hashPrompt(tokens, Number.MAX_SAFE_INTEGER, ROUTER_SEED)).toEqual(none);
  });

  it('hands out arrays that later calls leave alone, and leaves the prompt alone', () => {
    const tokens = randomTokens(64, 2);
    const copy = tokens.slice();
    const first = hasher.hashPrompt(tokens, 16, ROUTER_SEED);
    const local = first.local.slice();
    const sequence = first.sequence.slice();
    hasher.hashPrompt(randomTokens(4096, 3), 16, ROUTER_SEED);
    expect(first.local).toEqual(local);
    expect(first.sequence).toEqual(sequence);
    expect(tokens).toEqual(copy);
  });

  it('tells adapters and cache salts apart', () => {
    const tokens = randomTokens(32, 6);
    const firsts = [{}, { loraName: 'a' }, { cacheSalt: 'a' }, { loraName: 'a', cacheSalt: 'a' }].map(
      (scope) => hex(hasher.hashPrompt(tokens, 16, blockHashSeed(scope)).local)[0],
    );
    expect(new Set(firsts).size).toBe(4);
  });

  it('refuses a prompt above 4 Mi tokens', () => {
    const tokens = new Uint32Array(MAX_PROMPT_TOKENS + 1);
    expect(() => hasher.hashPrompt(tokens, 16, ROUTER_SEED)).toThrowError(
      error('PM_KV_TOO_LONG', 'a prompt to hash has at most 4194304 tokens, not 4194305', {
        count: 4_194_305,
        limit: 4_194_304,
      }),
    );
  });

  it('refuses a chain above 4 Mi blocks and a byte string above 16 MiB', () => {
    const pairs = new Uint32Array(2 * MAX_PROMPT_TOKENS + 2);
    expect(() => hasher.chain(null, pairs, pairs)).toThrowError(
      error('PM_KV_TOO_LONG', 'a chain to hash has at most 4194304 blocks, not 4194305', {
        count: 4_194_305,
        limit: 4_194_304,
      }),
    );
    expect(() => hasher.hashBytes(new Uint8Array(MAX_HASH_BYTES + 1), ROUTER_SEED)).toThrowError(
      error('PM_KV_TOO_LONG', 'a byte string to hash has at most 16777216 bytes, not 16777217', {
        count: 16_777_217,
        limit: 16_777_216,
      }),
    );
  });

  it.each([0, -16, 1.5, Number.NaN, Number.POSITIVE_INFINITY])('refuses %d tokens per block', (blockSize) => {
    expect(() => hasher.hashPrompt(new Uint32Array(64), blockSize, ROUTER_SEED)).toThrowError(
      error('PM_KV_ARGUMENT', `a block has 1 token or more, not ${blockSize}`, { block_size: blockSize }),
    );
  });

  it('refuses half a hash, and an output of another length, without writing to it', () => {
    const out = Uint32Array.of(7, 7, 7);
    expect(() => hasher.chain(null, new Uint32Array(3), out)).toThrowError(
      error(
        'PM_KV_ARGUMENT',
        'a list of hashes has two entries (lo, hi) per hash, but this one has an odd length of 3',
        { length: 3 },
      ),
    );
    expect(() => hasher.chain(null, new Uint32Array(4), out)).toThrowError(
      error('PM_KV_ARGUMENT', 'a chain of 2 hashes needs an output of 4 entries, not 3', {
        local: 4,
        out: 3,
      }),
    );
    expect(out).toEqual(Uint32Array.of(7, 7, 7));
  });
});
