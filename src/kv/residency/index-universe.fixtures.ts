// What long random lives of a prefix index are about: trunks of blocks with branches that leave at any depth, and the names engines
// give them. Contents and names are numbered, so that a model looks them up in arrays and nothing is hashed while a life is led.

import { type Rng, seededRng } from '../../plugin/index.ts';
import { blockHashSeed } from '../hashing/block-hash-seed.ts';
import { createBlockHasher } from '../hashing/block-hasher.ts';
import { hashBlocks } from '../hashing/hash-blocks.ts';
import type { HashPairs, U64 } from '../hashing/types.ts';
import { hashAt, toBigUint64Array } from '../hashing/u64.ts';

/** Tokens of each block. */
export const BLOCK_TOKENS = 2;

/** Blocks from the root on. */
export interface Chain {
  /** Number of each block's content. */
  readonly contents: Int32Array;
  /** Number of each block among those of the universe: two chains share those they have in common. */
  readonly blocks: Int32Array;
  readonly tokens: Uint32Array;
  readonly local: HashPairs;
  readonly sequence: HashPairs;
}

const MASK = 2n ** 64n - 1n;
const TRUNKS = 4;
const BRANCHES = 10;
/** Names of a block: the router's own hash, and a few of engines that hash otherwise. */
const WAYS = 5;
const ROUTERS_WAY = 4;

/** All chains of a depth, the same for the same depth. */
export class IndexUniverse {
  readonly chains: readonly Chain[];
  /** Names that blocks can have, numbered from 0; one more number stands for a name that no block has. */
  readonly names: number;
  readonly #pairs: HashPairs;
  readonly #clashes: number;
  #numbers: Map<bigint, number> | null = null;

  constructor(depth: number) {
    const contents = new Numbers();
    const prefixes = new Numbers();
    const hasher = createBlockHasher();
    const seed = blockHashSeed({});
    this.chains = shapes(depth).map((keys) => {
      const numbers = Int32Array.from(keys, (key) => contents.of(key));
      const tokens = Uint32Array.from([...numbers].flatMap((number) => [number, number % 7]));
      const { local, sequence } = hashBlocks(hasher, tokens, BLOCK_TOKENS, seed);
      const blocks = Int32Array.from(toBigUint64Array(sequence), (hash) => prefixes.of(String(hash)));
      return { contents: numbers, blocks, tokens, local: local.slice(), sequence: sequence.slice() };
    });
    this.#clashes = WAYS * prefixes.count;
    this.names = this.#clashes + depth;
    this.#pairs = new Uint32Array(2 * (this.names + 1));
    const values = new BigUint64Array(this.#pairs.buffer);
    for (const { blocks, sequence } of this.chains) {
      for (const [at, hash] of toBigUint64Array(sequence).entries()) {
        for (let way = 0; way < WAYS; way++) {
          const other = (hash * 0x9e3779b97f4a7c15n + BigInt(way)) & MASK;
          values[WAYS * blocks[at]! + way] = way === ROUTERS_WAY ? hash : other;
        }
      }
    }
    for (let at = 0; at < depth; at++) values[this.#clashes + at] = BigInt(at);
    values[this.names] = 0x0123456789abcdefn;
  }

  /** An owner's engine names blocks by a hash of its own, by the router's, or by one and sometimes another; few names clash. */
  namesOf(owner: number, chain: Chain, from: number, to: number, rng: Rng): Int32Array {
    const dice = rng.integer(100);
    const way = owner % 3 === 2 ? dice % 3 : owner % 3;
    const names = new Int32Array(to - from);
    for (let at = from; at < to; at++) {
      const own = way === 1 ? ROUTERS_WAY : way + (owner % 2);
      names[at - from] = dice < 2 ? this.#clashes + at : WAYS * chain.blocks[at]! + own;
    }
    return names;
  }

  /** The hash that a number stands for. */
  name(number: number): U64 {
    return hashAt(this.#pairs, number);
  }

  /** The hashes that numbers stand for. */
  pairs(names: Int32Array): HashPairs {
    const pairs = new Uint32Array(2 * names.length);
    for (let at = 0; at < names.length; at++) {
      pairs[2 * at] = this.#pairs[2 * names[at]!]!;
      pairs[2 * at + 1] = this.#pairs[2 * names[at]! + 1]!;
    }
    return pairs;
  }

  /** Whether the first hash of a list is the one a number stands for. */
  isName(number: number, pairs: HashPairs, at: number): boolean {
    return pairs[2 * at] === this.#pairs[2 * number] && pairs[2 * at + 1] === this.#pairs[2 * number + 1];
  }

  /** The number of a hash. */
  number(name: bigint): number {
    this.#numbers ??= new Map([...toBigUint64Array(this.#pairs)].map((value, number) => [value, number]));
    return this.#numbers.get(name) ?? this.names;
  }
}

/** Trunks with branches that leave at any depth, also within and at the end of what a branch of their own shares; contents as text. */
function shapes(depth: number): string[][] {
  const rng = seededRng(depth);
  const all: string[][] = [];
  for (let trunk = 0; trunk < TRUNKS; trunk++) {
    for (let branch = 0; branch <= BRANCHES; branch++) {
      const fork = branch === 0 ? depth : rng.integer(depth);
      const length = branch === 0 ? depth : fork + 1 + rng.integer(depth - fork);
      all.push(
        Array.from({ length }, (_, at) =>
          at < fork ? `${trunk} ${at}` : `${trunk} ${fork} ${branch % 3} ${at}`,
        ),
      );
    }
  }
  return all;
}

/** Numbers things in the order they are first seen. */
class Numbers {
  readonly #seen = new Map<string, number>();

  get count(): number {
    return this.#seen.size;
  }

  of(key: string): number {
    const number = this.#seen.get(key) ?? this.#seen.size;
    this.#seen.set(key, number);
    return number;
  }
}
