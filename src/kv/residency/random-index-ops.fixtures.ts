// A long random life of a prefix index beside the radix model: up to 70 owners over a universe of forking chains, with stores of
// every length, tier moves, tail and middle removes, unknown and repeated names, clears and lost workers. Every call is compared.
import { type Rng, seededRng, type WorkerId } from '../../plugin/index.ts';
import { createBlockHasher } from '../hashing/block-hasher.ts';
import type { HashPairs } from '../hashing/types.ts';
import { fromBigUint64Array, toBigUint64Array, u64FromBigInt } from '../hashing/u64.ts';
import { RadixPrefixIndex } from './radix-prefix-index.fixtures.ts';
import { type PrefixIndex, TIERS, type Tier } from './types.ts';

/** How a life is led. */
export interface IndexLifeOptions {
  readonly seed: number;
  readonly operations: number;
  /** Owners, at most 70. */
  readonly owners: number;
  /** Blocks of the longest chain. */
  readonly depth: number;
  /** Whether the index counts stores. */
  readonly countStores: boolean;
  /** Pieces of clears that the index left for later; some are done now and then. */
  readonly pieces?: (() => void)[];
  /** Names that the index evicted and the model was not yet told of, where the index has a cap. */
  readonly evicted?: { readonly owner: number; readonly external: bigint }[];
  /** Called now and then with how many operations are done. */
  readonly progress?: (done: number) => void;
}

interface Chain {
  readonly contents: bigint[];
  readonly local: HashPairs;
  readonly sequence: HashPairs;
  readonly sequences: bigint[];
}

const MASK = 2n ** 64n - 1n;
const TRUNKS = 4;
const BRANCHES = 10;
const MANY_TIERS: readonly (readonly Tier[])[] = [
  ['device'],
  TIERS,
  ['host', 'device'],
  ['external', 'disk'],
];

function mixed(...parts: number[]): bigint {
  let hash = 0x9e3779b97f4a7c15n;
  for (const part of parts) hash = ((hash ^ BigInt(part)) * 0xff51afd7ed558ccdn + 0x1234567n) & MASK;
  return hash ^ (hash >> 29n);
}

/** Trunks with branches that leave at any depth, also within and at the end of what a branch of their own shares. */
function universe(depth: number): Chain[] {
  const hasher = createBlockHasher();
  const rng = seededRng(depth);
  const chains: Chain[] = [];
  for (let trunk = 0; trunk < TRUNKS; trunk++) {
    for (let branch = 0; branch <= BRANCHES; branch++) {
      const fork = branch === 0 ? depth : rng.integer(depth);
      const length = branch === 0 ? depth : fork + 1 + rng.integer(depth - fork);
      const contents = Array.from({ length }, (_, at) =>
        at < fork ? mixed(trunk, at) : mixed(trunk, fork, branch % 3, at),
      );
      const local = fromBigUint64Array(BigUint64Array.from(contents));
      const sequence = new Uint32Array(local.length);
      hasher.chain(null, local, sequence);
      chains.push({ contents, local, sequence, sequences: [...toBigUint64Array(sequence)] });
    }
  }
  return chains;
}

/** What differs, in words. */
export class IndexDiffers extends Error {}

/** Leads an index through a random life. @throws IndexDiffers where it and the model first say different things. */
export function leadIndexLife(index: PrefixIndex, options: IndexLifeOptions): void {
  new IndexLife(index, options).lead();
}

class IndexLife {
  readonly #index: PrefixIndex;
  readonly #options: IndexLifeOptions;
  readonly #model: RadixPrefixIndex;
  readonly #rng: Rng;
  readonly #chains: readonly Chain[];
  readonly #out: BigUint64Array;
  #done = 0;

  constructor(index: PrefixIndex, options: IndexLifeOptions) {
    this.#index = index;
    this.#options = options;
    this.#model = new RadixPrefixIndex(options);
    this.#rng = seededRng(options.seed);
    this.#chains = universe(options.depth);
    this.#out = new BigUint64Array(options.depth);
  }

  lead(): void {
    while (this.#done < this.#options.operations) {
      this.#done++;
      const chain = this.#pick(this.#chains);
      const owner = this.#owner();
      this.#step(owner, chain);
      const asked = this.#rng.integer(3) === 0 ? this.#pick(this.#chains) : chain;
      this.#find(asked);
      if (this.#rng.integer(4) === 0) this.#names(owner, asked);
      if (this.#rng.integer(8) === 0) this.#options.pieces?.shift()?.();
      if (this.#done % 1000 === 0) this.#stats();
      if (this.#done % 100_000 === 0) this.#options.progress?.(this.#done);
    }
    this.#stats();
  }

  #step(owner: number, chain: Chain): void {
    const dice = this.#rng.integer(10_000);
    if (dice < 5200) this.#store(owner, chain);
    else if (dice < 9970) this.#remove(owner, chain);
    else if (dice < 9985) this.#both('clear', (to) => to.clear(owner, this.#tierOrAll(dice)));
    else if (dice < 9993) this.#both('bindOwner', (to) => to.bindOwner(owner, this.#worker(dice)));
    else this.#both('removeWorker', (to) => to.removeWorker(this.#worker(dice)));
  }

  #store(owner: number, chain: Chain): void {
    const { length } = chain.contents;
    const held = this.#rng.integer(2) === 0 ? this.#model.names(owner, chain.contents, 0).length : 0;
    const from = this.#rng.integer(20) === 0 ? this.#rng.integer(length) : Math.min(held, length - 1);
    const to = Math.min(length, from + this.#length());
    const tier = this.#tier();
    const names = this.#namesOf(owner, chain, from, to);
    const held0 = from === 0 ? null : this.#model.names(owner, chain.contents, from - 1)[0];
    const parent = from === 0 ? null : (held0 ?? this.#namesOf(owner, chain, from - 1, from)[0]!);
    const contents = chain.contents.slice(from, to);
    const said = this.#index.store(
      owner,
      tier,
      parent === null ? null : u64FromBigInt(parent),
      fromBigUint64Array(BigUint64Array.from(names)),
      chain.local.slice(2 * from, 2 * to),
    );
    this.#tellOfEvicted();
    this.#same('store', said, this.#model.store(owner, tier, parent, names, contents));
  }

  /** Evictions come before the store that needs the room. */
  #tellOfEvicted(): void {
    const { evicted } = this.#options;
    if (evicted === undefined || evicted.length === 0) return;
    for (const { owner, external } of evicted.splice(0)) this.#model.evict(owner, external);
    // Whatever it evicts, an event raises the version once for it.
    this.#model.stats.version++;
  }

  #remove(owner: number, chain: Chain): void {
    const held = this.#model.names(owner, chain.contents, 0);
    const { length } = chain.contents;
    const from = Math.max(
      0,
      (this.#rng.integer(3) > 0 ? held.length : this.#rng.integer(length)) - this.#length(),
    );
    const names =
      held.length > from
        ? held.slice(from, from + this.#length())
        : this.#namesOf(owner, chain, from, length);
    if (this.#rng.integer(8) === 0) names.push(names[0]!, mixed(this.#done));
    const tier = this.#tier();
    const said = this.#index.remove(owner, tier, fromBigUint64Array(BigUint64Array.from(names)));
    this.#same('remove', said, this.#model.remove(owner, tier, names));
  }

  #find(chain: Chain): void {
    const tiers = this.#pick(MANY_TIERS);
    const match = this.#index.find(chain.local, chain.sequence, tiers);
    const rows = this.#model.find(chain.contents, tiers);
    this.#same('rows', match.count, rows.length);
    for (const [at, row] of rows.entries()) {
      this.#same('owner', match.owners[at], row.owner);
      for (const [t, depth] of row.depths.entries()) this.#same(TIERS[t]!, match.depthPerTier[t]![at], depth);
    }
    this.#same('version', match.version, this.#model.stats.version);
  }

  #names(owner: number, chain: Chain): void {
    const { length } = chain.contents;
    const from = this.#rng.integer(2) === 0 ? 0 : this.#rng.integer(length);
    const names = this.#model.names(owner, chain.contents, from);
    this.#same(
      'names',
      this.#index.externalHashes(owner, chain.sequence, from, length, this.#out),
      names.length,
    );
    for (const [at, name] of names.entries()) this.#same('name', this.#out[at], name);
    const held = this.#index.holds(owner, 'device', chain.sequence, 0);
    const row = this.#model.find(chain.contents.slice(0, 1), ['device']).some((of) => of.owner === owner);
    this.#same('holds', held, row);
  }

  #stats(): void {
    for (const pieces = this.#options.pieces ?? []; pieces.length > 0; ) pieces.shift()?.();
    const stats = this.#index.stats();
    for (const [name, count] of Object.entries(this.#model.stats)) {
      this.#same(name, Object.entries(stats).find(([of]) => of === name)?.[1], count);
    }
  }

  #both(what: string, call: (to: PrefixIndex | RadixPrefixIndex) => void): void {
    call(this.#index);
    call(this.#model);
    this.#same(what, this.#index.stats().version, this.#model.stats.version);
  }

  #same(what: string, said: unknown, expected: unknown): void {
    if (Object.is(said, expected)) return;
    throw new IndexDiffers(
      `operation ${this.#done} of seed ${this.#options.seed}: ${what} is ${String(said)}, the model says ${String(expected)}`,
    );
  }

  /** An owner's engine names blocks by a hash of its own, by the router's, or by one and sometimes another; few names clash. */
  #namesOf(owner: number, chain: Chain, from: number, to: number): bigint[] {
    const dice = this.#rng.integer(100);
    const way = owner % 3 === 2 ? dice % 3 : owner % 3;
    const clash = dice < 2;
    return chain.sequences.slice(from, to).map((sequence, i) => {
      if (clash) return BigInt(from + i);
      if (way === 1) return sequence;
      return (sequence * 0x9e3779b97f4a7c15n + BigInt(way + (owner % 2))) & MASK;
    });
  }

  #length(): number {
    const dice = this.#rng.integer(10);
    if (dice < 4) return 1;
    if (dice < 8) return 1 + this.#rng.integer(20);
    return 1 + this.#rng.integer(this.#options.depth);
  }

  #owner(): number {
    // Few owners do most, so that their chains get long; slots are far apart.
    const { owners } = this.#options;
    const number =
      this.#rng.integer(3) === 0 ? this.#rng.integer(owners) : this.#rng.integer(Math.min(owners, 5));
    return number * 936;
  }

  #tier(): Tier {
    return this.#rng.integer(4) > 0 ? 'device' : this.#pick(TIERS);
  }

  #tierOrAll(dice: number): Tier | 'all' {
    return TIERS[dice % 8] ?? 'all';
  }

  #worker(dice: number): WorkerId {
    return BigInt(dice % 4);
  }

  #pick<T>(list: readonly T[]): T {
    return list[this.#rng.integer(list.length)]!;
  }
}
