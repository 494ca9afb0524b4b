// Block hashing: a 4k and a 32k prompt in blocks of 16, 32 and 64 tokens. Ours is timed with everything a request pays (copy
// in, block hashes, chain, copy out); the two npm packages hash the blocks only, one call per block; native C does block and
// chain without a copy. Variants take turns within a round, so that noise of the machine falls on all of them.
import { xxh3 } from '@node-rs/xxhash';
import { createXXHash3, type IHasher } from 'hash-wasm';
import { type HashKernel, loadKernel } from '../src/kv/hashing/kernel.ts';
import { runtimeWebAssembly } from '../src/kv/hashing/wasm-api.ts';
import {
  type BlockHasher,
  createBlockHasher,
  createReferenceHasher,
  hashAt,
  ROUTER_SEED,
  u64ToBigInt,
} from '../src/kv/index.ts';
import type { Benchmark, BenchResult, BenchRow } from './bench-result.ts';
import { buildNative, type NativeProgram } from './native-program.ts';

const PROMPTS = [4096, 32_768];
const BLOCK_SIZES = [16, 32, 64];
const ROUNDS = 151;
/** Rounds in which the native program runs; it takes a median of its own each time. */
const NATIVE_ROUNDS = 3;
const NATIVE_SAMPLES = 51;
/** Untimed rounds before, in which the engine compiles what is hot. */
const WARM_UP_ROUNDS = 30;
/** Short, so that on a busy machine most samples fit between two interruptions. */
const SAMPLE_NS = 250_000;
/** How many times as fast as `@node-rs/xxhash` on the blocks alone ours should be. */
const AIM = 12;
const KERNEL = 'kernel, copy + block + chain';
const KERNEL_ONLY = 'kernel, block + chain in place';
/** What a router can do with the package: cut each block out of the prompt and hash it. */
const NODE_RS = '@node-rs/xxhash per block, block only';
const NATIVE = 'native C, block + chain';

/** Hashes the whole prompt once and returns its last hash, so that no work can be left out. */
type HashOnce = () => bigint;

/** A variant's name, work, and nanoseconds per block of each sample. */
interface Variant {
  readonly name: string;
  readonly once: HashOnce;
  readonly samples: number[];
}

const benchmark: Benchmark = { name: 'hashing', run };
export default benchmark;

async function run(): Promise<BenchResult> {
  const kernel = createBlockHasher();
  const hashWasm = await createXXHash3(ROUTER_SEED.lo, ROUTER_SEED.hi);
  const native = buildNative('hashing-native.c');
  const rows: BenchRow[] = [];
  const ratios = { kernel: [] as string[], withCopies: [] as string[] };
  try {
    for (const tokens of PROMPTS) {
      for (const block of BLOCK_SIZES) {
        const nsPerBlock = measure(variantsFor(tokens, block, kernel, hashWasm), native, tokens, block);
        rows.push(...rowsOf(`${tokens / 1024}k tokens, ${block} per block`, nsPerBlock));
        const base = nsPerBlock.get(NODE_RS)!;
        ratios.kernel.push(`${(base / (nsPerBlock.get(KERNEL_ONLY) ?? Number.NaN)).toFixed(1)}x`);
        ratios.withCopies.push(`${(base / nsPerBlock.get(KERNEL)!).toFixed(1)}x`);
      }
    }
  } finally {
    native?.remove();
  }
  const notes = [
    'All variants were seen to give the same hashes before they were timed.',
    `Medians of samples of ${SAMPLE_NS / 1e6} ms: garbage collection, due to every variant but those in place and native, is in few of them.`,
    `Aim: block + chain at least ${AIM}x as fast as @node-rs/xxhash on the blocks alone. Seen in place: ${ratios.kernel.join(', ')}.`,
    `With tokens copied in and hashes copied out: ${ratios.withCopies.join(', ')}.`,
  ];
  if (kernel.kind !== 'wasm')
    notes.push('WebAssembly SIMD is refused here: the kernel rows are plain TypeScript.');
  if (native === null) notes.push('gcc is not present: no native rows.');
  return { name: 'hashing', rows, notes };
}

function rowsOf(label: string, nsPerBlock: ReadonlyMap<string, number>): BenchRow[] {
  const rows: BenchRow[] = [];
  for (const [name, value] of nsPerBlock) {
    const against = name === NODE_RS ? null : name === NATIVE ? KERNEL_ONLY : NODE_RS;
    const ratio = against === null ? null : nsPerBlock.get(against)! / value;
    rows.push({ case: `${label}: ${name}`, unit: 'ns/block', value, ratio, against });
  }
  return rows;
}

function variantsFor(tokens: number, block: number, kernel: BlockHasher, hashWasm: IHasher): Variant[] {
  const prompt = Uint32Array.from({ length: tokens }, (_, i) => Math.imul(i, 2654435761) >>> 0);
  const bytes = new Uint8Array(prompt.buffer);
  const size = 4 * block;
  const cuts = Array.from({ length: tokens / block }, (_, i) => bytes.subarray(size * i, size * (i + 1)));
  const last = cuts.length - 1;
  const reference = createReferenceHasher();
  const expected = reference.hashPrompt(prompt, block, ROUTER_SEED);
  const variants: Variant[] = [];
  const add = (name: string, wanted: bigint, once: HashOnce): void => {
    if (once() !== wanted) throw new Error(`${name} gives another hash than the reference`);
    variants.push({ name, once, samples: [] });
  };
  const sequence = u64ToBigInt(hashAt(expected.sequence, last));
  const local = u64ToBigInt(hashAt(expected.local, last));
  add(KERNEL, sequence, () => {
    return u64ToBigInt(hashAt(kernel.hashPrompt(prompt, block, ROUTER_SEED).sequence, last));
  });
  const inPlace = loadKernel(runtimeWebAssembly());
  if (inPlace !== null) add(KERNEL_ONLY, sequence, onceInPlace(inPlace, prompt, block));
  add('TypeScript, block + chain', sequence, () => {
    return u64ToBigInt(hashAt(reference.hashPrompt(prompt, block, ROUTER_SEED).sequence, last));
  });
  add(NODE_RS, local, () => {
    let hash = 0n;
    for (let at = 0; at < bytes.length; at += size) hash = xxh3.xxh64(bytes.subarray(at, at + size), 1337n);
    return hash;
  });
  add('@node-rs/xxhash per block, blocks cut beforehand', local, () => {
    let hash = 0n;
    for (const cut of cuts) hash = xxh3.xxh64(cut, 1337n);
    return hash;
  });
  add('hash-wasm per block, block only', local, () => {
    let hash: Uint8Array = Buffer.alloc(8);
    for (let at = 0; at < bytes.length; at += size) {
      hash = hashWasm
        .init()
        .update(bytes.subarray(at, at + size))
        .digest('binary');
    }
    return Buffer.from(hash).readBigUInt64BE();
  });
  return variants;
}

/** The kernel alone, over tokens that lie in its memory already. */
function onceInPlace(kernel: HashKernel, prompt: Uint32Array, block: number): HashOnce {
  const blocks = prompt.length / block;
  const tokens = Math.ceil(kernel.heapBase() / 16) * 16;
  const local = tokens + prompt.byteLength;
  const sequence = local + 8 * blocks;
  kernel.memory.grow(Math.ceil((sequence + 8 * blocks) / 65_536));
  new Uint32Array(kernel.memory.buffer).set(prompt, tokens / 4);
  const last = new DataView(kernel.memory.buffer, sequence + 8 * (blocks - 1), 8);
  return () => {
    kernel.hashPrompt(tokens, blocks, 4 * block, ROUTER_SEED.lo, ROUTER_SEED.hi, local, sequence);
    return last.getBigUint64(0, true);
  };
}

/** Median nanoseconds per block of each variant, in order. */
function measure(
  variants: Variant[],
  native: NativeProgram | null,
  tokens: number,
  block: number,
): Map<string, number> {
  const nativeSamples: number[] = [];
  const blocks = tokens / block;
  const repeatsOf = (calls: number) =>
    variants.map(({ once }) => Math.ceil(SAMPLE_NS / nsPerCall(once, calls)));
  let repeats = repeatsOf(5);
  for (let round = -WARM_UP_ROUNDS; round < ROUNDS; round += 1) {
    // Once compiled, more calls fit a sample.
    if (round === 0) repeats = repeatsOf(20);
    for (const [row, { once, samples }] of variants.entries()) {
      const taken = nsPerCall(once, repeats[row]!);
      if (round >= 0) samples.push(taken / blocks);
    }
    if (round >= 0 && native !== null && round % Math.ceil(ROUNDS / NATIVE_ROUNDS) === 0) {
      nativeSamples.push(nativeNsPerBlock(native, tokens, block, variants[0]!.once()));
    }
  }
  const medians = new Map(variants.map(({ name, samples }) => [name, median(samples)]));
  if (nativeSamples.length > 0) medians.set(NATIVE, median(nativeSamples));
  return medians;
}

function nsPerCall(once: HashOnce, calls: number): number {
  const start = process.hrtime.bigint();
  for (let i = 0; i < calls; i += 1) once();
  return Number(process.hrtime.bigint() - start) / calls;
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1]!;
}

function nativeNsPerBlock(native: NativeProgram, tokens: number, block: number, sequence: bigint): number {
  const [chained, , hash] = native.run([tokens, block, NATIVE_SAMPLES]);
  if (BigInt(`0x${hash}`) !== sequence) throw new Error('native C gives another hash than the kernel');
  return Number(chained);
}
