// The prefix index as a compressed radix tree over contents, for tests: it never hashes, so it is wrong in other places than the
// index and its naive twin would be. Owners, contents and names are numbers from 0, so that 10⁸ operations can be checked against it.
import type { WorkerId } from '../../plugin/index.ts';
import { RadixTree, type TreeBlock } from './radix-tree.fixtures.ts';
import { type RadixMatch, RadixWalk } from './radix-walk.fixtures.ts';
import { type StoreOutcome, TIERS } from './types.ts';

/** One engine hash of one owner: the copies on each tier. */
interface Name {
  readonly name: number;
  readonly block: TreeBlock<Holders>;
  readonly copies: number[];
}

/** Who holds a block. */
interface Holders {
  /** Owners by tier, as bits of 32. */
  readonly held: Int32Array;
  /** Names by owner, the newest last; none where the owner does not hold it. */
  readonly names: Name[][];
  owners: number;
}

/** The counts of an index that do not depend on how it is built. */
export interface RadixStats {
  blocks: number;
  residencies: number;
  holdings: number;
  version: number;
  duplicateStores: number;
  conflictingStores: number;
  selfReferences: number;
  unknownParents: number;
  unknownRemoves: number;
  evicted: number;
  evictedRemoves: number;
}

/** What a radix model is made for. */
export interface RadixOptions {
  readonly owners: number;
  /** Names there are; a remove may say this number for one that nobody has. */
  readonly names: number;
  readonly countStores?: boolean;
}

/** No parent: a root. */
export const ROOT = -1;
const NO_NAMES: Name[] = [];

const onTier = (names: readonly Name[], tier: number): boolean => {
  for (const { copies } of names) if (copies[tier]! > 0) return true;
  return false;
};

/** Says what a prefix index must say, from contents instead of hashes. */
export class RadixPrefixIndex {
  readonly #tree: RadixTree<Holders>;
  /** By owner and name. */
  readonly #named: (Name | undefined)[][];
  /** (Tier, name) pairs evicted and not removed since, by owner. */
  readonly #owed: Int32Array;
  readonly #workers = new Map<number, WorkerId>();
  readonly #countStores: boolean;
  readonly #path: Holders[] = [];
  readonly #walk: RadixWalk;
  /** Number of the store that last had a name. */
  readonly #seen: Int32Array;
  #stores = 0;
  stats: RadixStats = noCounts();

  constructor({ owners, names, countStores = false }: RadixOptions) {
    this.#countStores = countStores;
    this.#walk = new RadixWalk(owners);
    const make = (): Holders => ({
      held: new Int32Array(this.#walk.width),
      names: Array.from({ length: owners }, () => NO_NAMES),
      owners: 0,
    });
    this.#tree = new RadixTree(make, (holders) => holders.owners === 0);
    this.#named = Array.from({ length: owners }, () => Array.from({ length: names + 1 }, () => undefined));
    this.#owed = new Int32Array(owners);
    this.#seen = new Int32Array(names + 1);
  }

  /** As the index's, with the number of a tier; `parent` may be `ROOT`. */
  store(owner: number, tier: number, parent: number, names: Int32Array, contents: Int32Array): StoreOutcome {
    if (this.repeats(parent, names)) {
      this.stats.selfReferences++;
      return 'self-reference';
    }
    const named = this.#named[owner]!;
    const before = parent === ROOT ? null : named[parent]?.block;
    if (before === undefined) {
      this.stats.unknownParents++;
      return 'unknown-parent';
    }
    let at: TreeBlock<Holders> | null | undefined = before;
    for (let i = 0; i < names.length; i++) {
      if (at !== undefined) at = this.#tree.after(at, contents[i]!);
      const known = named[names[i]!];
      if (known !== undefined && known.block !== at) {
        this.stats.conflictingStores++;
        return 'duplicate';
      }
    }
    let changed = 0;
    at = before;
    for (let i = 0; i < names.length; i++) {
      at = this.#tree.after(at, contents[i]!) ?? this.#tree.grow(at, contents[i]!);
      if (this.#hold(owner, tier, names[i]!, at)) changed++;
    }
    this.stats.duplicateStores += names.length - changed;
    if (changed === 0) return 'duplicate';
    this.stats.version++;
    return 'stored';
  }

  /** Whether a name stands twice in a store, its parent included. */
  repeats(parent: number, names: Int32Array): boolean {
    const now = ++this.#stores;
    if (parent !== ROOT) this.#seen[parent] = now;
    for (const name of names) {
      if (this.#seen[name] === now) return true;
      this.#seen[name] = now;
    }
    return false;
  }

  /** As the index's. */
  remove(owner: number, tier: number, names: Int32Array): number {
    const named = this.#named[owner]!;
    let removed = 0;
    for (const name of names) {
      const holding = named[name];
      if (holding === undefined || holding.copies[tier] === 0) continue;
      this.#release(owner, holding, tier);
      removed++;
    }
    if (removed > 0) this.stats.version++;
    const unknown = names.length - removed;
    const evicted = Math.min(this.#owed[owner]!, unknown);
    this.#owed[owner]! -= evicted;
    this.stats.evictedRemoves += evicted;
    this.stats.unknownRemoves += unknown - evicted;
    return removed + evicted;
  }

  /** What the index says it has evicted. @throws Error for what is not held. */
  evict(owner: number, name: number): void {
    const holding = this.#named[owner]?.[name];
    if (holding === undefined) throw new Error(`name ${name} of ${owner} was evicted, but is not held`);
    for (const tier of TIERS.keys()) {
      if (holding.copies[tier] === 0) continue;
      holding.copies[tier] = 1;
      this.#owed[owner]!++;
      this.#release(owner, holding, tier);
    }
    this.stats.evicted++;
  }

  /** As the index's; `TIERS.length` or more = all tiers. */
  clear(owner: number, tier: number): void {
    if (this.#forget(owner, tier)) this.stats.version++;
  }

  /** As the index's; whether the slot was another worker's. */
  bindOwner(owner: number, worker: WorkerId): boolean {
    const before = this.#workers.get(owner);
    this.#workers.set(owner, worker);
    if (before === undefined || before === worker) return false;
    this.clear(owner, TIERS.length);
    return true;
  }

  /** As the index's; the owners that were this worker's. */
  removeWorker(worker: WorkerId): number[] {
    const owners = [...this.#workers].filter(([, of]) => of === worker).map(([owner]) => owner);
    let changed = false;
    for (const owner of owners) {
      this.#workers.delete(owner);
      changed = this.#forget(owner, TIERS.length) || changed;
    }
    if (changed) this.stats.version++;
    return owners;
  }

  /** Which worker an owner's slot is bound to. */
  workerOf(owner: number): WorkerId | undefined {
    return this.#workers.get(owner);
  }

  /** Whether an owner has a name, on any tier or on one. */
  knows(owner: number, name: number, tier?: number): boolean {
    const copies = this.#named[owner]![name]?.copies;
    return copies !== undefined && (tier === undefined || copies[tier]! > 0);
  }

  /** Whether an owner holds a block of a chain on a tier, whatever it holds before it. */
  holds(owner: number, tier: number, contents: Int32Array, at: number): boolean {
    return this.#tree.path(contents, this.#path) > at && onTier(this.#path[at]!.names[owner]!, tier);
  }

  /** Rows of a match, for tiers in the order of `TIERS`. */
  find(contents: Int32Array, tiers: readonly number[]): RadixMatch {
    return this.#walk.walk(this.#path, this.#tree.path(contents, this.#path), tiers);
  }

  /** Newest names of blocks [from, to) of a chain, up to the first the owner does not hold. */
  names(owner: number, contents: Int32Array, from: number, to = contents.length): Int32Array {
    const end = Math.min(to, this.#tree.path(contents, this.#path));
    let last = from;
    while (last < end && this.#path[last]!.names[owner]!.length > 0) last++;
    const found = new Int32Array(Math.max(0, last - from));
    for (let at = from; at < last; at++) found[at - from] = this.#path[at]!.names[owner]!.at(-1)!.name;
    return found;
  }

  /** (Owner, name, tier) triples that are held. */
  rows(): number {
    let rows = 0;
    for (const named of this.#named) {
      for (const holding of named) rows += holding?.copies.filter((copies) => copies > 0).length ?? 0;
    }
    return rows;
  }

  /** The index was filled from a copy, which keeps neither how many copies there were nor what was evicted, bound or counted. */
  restored(version: number): void {
    const { blocks, residencies, holdings } = this.stats;
    this.stats = { ...noCounts(), blocks, residencies, holdings, version };
    this.#owed.fill(0);
    for (const named of this.#named) {
      for (const { copies } of named.filter((holding) => holding !== undefined)) {
        for (const tier of TIERS.keys()) copies[tier] = Math.min(1, copies[tier]!);
      }
    }
  }

  /** Names of the blocks of a chain that an owner holds under several, the newest last. */
  severalNames(contents: Int32Array): { owner: number; at: number; names: number[] }[] {
    const found: { owner: number; at: number; names: number[] }[] = [];
    const length = this.#tree.path(contents, this.#path);
    for (let at = 0; at < length; at++) {
      for (const [owner, names] of this.#path[at]!.names.entries()) {
        if (names.length > 1) found.push({ owner, at, names: names.map(({ name }) => name) });
      }
    }
    return found;
  }

  /** A copy keeps no order of the names of a block either: this is the one that the index has now. */
  reorder(owner: number, newestLast: readonly number[]): void {
    const names = this.#named[owner]![newestLast[0]!]?.block.value.names[owner] ?? NO_NAMES;
    names.sort((a, b) => newestLast.indexOf(a.name) - newestLast.indexOf(b.name));
  }

  /** Holds one more copy; whether there was none. */
  #hold(owner: number, tier: number, name: number, block: TreeBlock<Holders>): boolean {
    const holders = block.value;
    if (holders.names[owner] === NO_NAMES) {
      holders.names[owner] = [];
      if (holders.owners++ === 0) this.stats.blocks++;
    }
    const names = holders.names[owner]!;
    const before = onTier(names, tier);
    let holding = this.#named[owner]![name];
    if (holding === undefined) {
      holding = { name, block, copies: TIERS.map(() => 0) };
      names.push(holding);
      this.#named[owner]![name] = holding;
      this.stats.holdings++;
    }
    const isNew = holding.copies[tier] === 0;
    if (isNew || this.#countStores) holding.copies[tier]!++;
    if (!before) {
      this.stats.residencies++;
      this.#walk.mark(holders.held, owner, tier, true);
    }
    return isNew;
  }

  #release(owner: number, holding: Name, tier: number): void {
    const holders = holding.block.value;
    const names = holders.names[owner]!;
    holding.copies[tier]!--;
    if (!onTier(names, tier)) {
      this.stats.residencies--;
      this.#walk.mark(holders.held, owner, tier, false);
    }
    if (holding.copies.some((copies) => copies > 0)) return;
    names.splice(names.indexOf(holding), 1);
    this.#named[owner]![holding.name] = undefined;
    this.stats.holdings--;
    if (names.length > 0) return;
    holders.names[owner] = NO_NAMES;
    holders.owners--;
    if (holders.owners > 0) return;
    this.stats.blocks--;
    this.#tree.prune(holding.block);
  }

  #forget(owner: number, tier: number): boolean {
    if (tier >= TIERS.length) this.#owed[owner] = 0;
    let changed = false;
    for (const holding of this.#named[owner]!) {
      if (holding === undefined) continue;
      for (let t = 0; t < TIERS.length; t++) {
        if ((tier < TIERS.length && tier !== t) || holding.copies[t] === 0) continue;
        holding.copies[t] = 1;
        this.#release(owner, holding, t);
        changed = true;
      }
    }
    return changed;
  }
}

function noCounts(): RadixStats {
  return {
    blocks: 0,
    residencies: 0,
    holdings: 0,
    version: 0,
    duplicateStores: 0,
    conflictingStores: 0,
    selfReferences: 0,
    unknownParents: 0,
    unknownRemoves: 0,
    evicted: 0,
    evictedRemoves: 0,
  };
}
