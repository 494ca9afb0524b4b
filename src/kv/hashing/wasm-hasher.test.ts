import { beforeEach, describe, expect, it } from 'vitest';
import { PointsmanError, seededRng } from '../../plugin/index.ts';
import { createBlockHasher } from './block-hasher.ts';
import { MAX_PROMPT_TOKENS } from './hash-limits.ts';
import { type HashKernel, loadKernel } from './kernel.ts';
import { createReferenceHasher } from './reference-hasher.ts';
import { ROUTER_SEED } from './router-seed.ts';
import type { BlockHasher } from './types.ts';
import { runtimeWebAssembly, type WebAssemblyApi } from './wasm-api.ts';
import { WasmHasher } from './wasm-hasher.ts';

const reference = createReferenceHasher();

function newKernel(): HashKernel {
  const kernel = loadKernel(runtimeWebAssembly());
  if (kernel === null) throw new Error('this Node has no WebAssembly SIMD, so the kernel cannot be tested');
  return kernel;
}

function randomTokens(count: number): Uint32Array {
  const rng = seededRng(count);
  return Uint32Array.from({ length: count }, () => rng.integer(2 ** 32));
}

/** Equality of long arrays, which `toEqual` takes seconds for. */
function same(a: Uint32Array, b: Uint32Array): boolean {
  return a.length === b.length && a.every((word, i) => word === b[i]);
}

describe('the kernel’s memory', () => {
  let kernel: HashKernel;
  let hasher: BlockHasher;
  beforeEach(() => {
    kernel = newKernel();
    hasher = new WasmHasher(kernel);
  });

  /** Small calls of all three kinds: they would read or write a detached view if growth left one behind. */
  function expectWorking(): void {
    const tokens = randomTokens(200);
    const expected = reference.hashPrompt(tokens, 16, ROUTER_SEED);
    expect(hasher.hashPrompt(tokens, 16, ROUTER_SEED)).toEqual(expected);
    const out = new Uint32Array(expected.local.length);
    hasher.chain(null, expected.local, out);
    expect(out).toEqual(expected.sequence);
    const bytes = new Uint8Array(tokens.buffer, 3, 301);
    expect(hasher.hashBytes(bytes, ROUTER_SEED)).toEqual(reference.hashBytes(bytes, ROUTER_SEED));
  }

  function expectGrowth(grow: () => void): void {
    expectWorking();
    const before = kernel.memory.buffer;
    const size = before.byteLength;
    grow();
    expect(before.byteLength).toBe(0);
    expect(kernel.memory.buffer.byteLength).toBeGreaterThan(size);
    expectWorking();
  }

  it('grows for a long prompt, again for a longer one, and serves short ones afterwards', () => {
    const early = hasher.hashPrompt(randomTokens(64), 16, ROUTER_SEED);
    const copy = { ...early, local: early.local.slice(), sequence: early.sequence.slice() };
    for (const count of [250_000, 400_001]) {
      const tokens = randomTokens(count);
      expectGrowth(() => {
        expect(hasher.hashPrompt(tokens, 16, ROUTER_SEED)).toEqual(
          reference.hashPrompt(tokens, 16, ROUTER_SEED),
        );
      });
    }
    expect(early).toEqual(copy);
  });

  it('grows for a long chain', () => {
    const local = randomTokens(300_000);
    const out = new Uint32Array(local.length);
    const expected = new Uint32Array(local.length);
    reference.chain({ lo: 1, hi: 2 }, local, expected);
    expectGrowth(() => hasher.chain({ lo: 1, hi: 2 }, local, out));
    expect(same(out, expected)).toBe(true);
  });

  it('grows for many bytes', () => {
    const bytes = new Uint8Array(randomTokens(400_000).buffer);
    expectGrowth(() => {
      expect(hasher.hashBytes(bytes, ROUTER_SEED)).toEqual(reference.hashBytes(bytes, ROUTER_SEED));
    });
  });

  it('holds when something else has grown it', () => {
    expectGrowth(() => void kernel.memory.grow(1));
  });

  it('has room for the longest prompt in blocks of one token', () => {
    const tokens = new Uint32Array(MAX_PROMPT_TOKENS);
    tokens[MAX_PROMPT_TOKENS - 1] = 7;
    const { blocks, local, sequence } = hasher.hashPrompt(tokens, 1, ROUTER_SEED);
    expect([blocks, local.length, sequence.length]).toEqual([4_194_304, 8_388_608, 8_388_608]);
    expect(kernel.memory.buffer.byteLength).toBeLessThanOrEqual(81 * 2 ** 20);
    const ends = reference.hashPrompt(tokens.subarray(-2), 1, ROUTER_SEED).local;
    expect(local.slice(-4)).toEqual(ends);
    const last = new Uint32Array(2);
    reference.chain({ lo: sequence.at(-4)!, hi: sequence.at(-3)! }, ends.subarray(2), last);
    expect(sequence.slice(-2)).toEqual(last);
  });

  it('is grown by no more pages than a prompt needs', () => {
    hasher.hashPrompt(randomTokens(196_608), 16, ROUTER_SEED);
    // 768 KiB of tokens and 192 KiB of hashes beside the kernel's own first bytes: the sixteen pages it starts with.
    expect(kernel.memory.buffer.byteLength).toBe(16 * 65_536);
    hasher.hashPrompt(randomTokens(212_992), 16, ROUTER_SEED);
    expect(kernel.memory.buffer.byteLength).toBe(17 * 65_536);
  });

  it('reports that the system gives no more, and serves what still fits', () => {
    const limited: HashKernel = {
      ...kernel,
      memory: {
        buffer: kernel.memory.buffer,
        grow: () => {
          throw new RangeError('Unable to grow instance memory');
        },
      },
    };
    hasher = new WasmHasher(limited);
    expect(() => hasher.hashPrompt(randomTokens(300_000), 16, ROUTER_SEED)).toThrowError(
      new PointsmanError('PM_KV_NO_MEMORY', 'hashing needs 458752 more bytes and gets none', {
        cause: new RangeError('Unable to grow instance memory'),
        details: { bytes: 458_752 },
      }),
    );
    expectWorking();
  });
});

describe('createBlockHasher', () => {
  const real = runtimeWebAssembly();
  if (real === null) throw new Error('this Node has no WebAssembly');

  it('runs the kernel on this Node', () => {
    expect(createBlockHasher().kind).toBe('wasm');
  });

  it('gives each caller a hasher with a memory of its own', () => {
    const [one, other] = [newKernel(), newKernel()];
    expect(one.memory.buffer).not.toBe(other.memory.buffer);
  });

  const { Module, Memory, Instance } = real;
  const refusing: WebAssemblyApi = { validate: () => false, Module, Memory, Instance };
  const throwing = class {
    constructor() {
      throw new RangeError('out of memory');
    }
  };
  it.each([
    ['there is no WebAssembly', null],
    ['the binary does not validate, as without SIMD', refusing],
    ['compiling fails', { ...refusing, validate: () => true, Module: throwing }],
    ['no memory can be had', { ...refusing, validate: () => true, Instance: throwing as never }],
  ])('hashes in TypeScript where %s', (_case, api) => {
    const hasher = createBlockHasher(api);
    expect(hasher.kind).toBe('typescript');
    const tokens = randomTokens(100);
    const expected = createBlockHasher().hashPrompt(tokens, 16, ROUTER_SEED);
    expect(hasher.hashPrompt(tokens, 16, ROUTER_SEED)).toEqual(expected);
  });
});
