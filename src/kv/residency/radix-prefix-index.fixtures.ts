// The prefix index as a compressed radix tree over contents, for tests: it never hashes, so it is wrong in other places than the
// index and its naive twin would be. Slow per block, but not per block held, so that long streams can be checked against it.
import type { WorkerId } from '../../plugin/index.ts';
import { type StoreOutcome, TIERS, type Tier } from './types.ts';

/** One engine hash of one owner: the copies on each tier. */
interface Name {
  readonly name: bigint;
  readonly copies: number[];
}

interface Block {
  node: Node;
  readonly content: bigint;
  /** Names by owner, the newest last. */
  readonly holders: Map<number, Name[]>;
}

interface Node {
  parent: Node | null;
  edge: Block[];
  children: Map<bigint, Node>;
}

/** Leading blocks of one owner, per tier of `TIERS`. */
export interface RadixRow {
  readonly owner: number;
  readonly depths: readonly number[];
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

const onTier = (names: readonly Name[] | undefined, tier: number): boolean =>
  names?.some(({ copies }) => copies[tier]! > 0) ?? false;

/** Says what a prefix index must say, from contents instead of hashes. */
export class RadixPrefixIndex {
  readonly #root: Node = { parent: null, edge: [], children: new Map() };
  readonly #named = new Map<number, Map<bigint, Block>>();
  /** (Tier, name) pairs evicted and not removed since, by owner. */
  readonly #owed = new Map<number, number>();
  readonly #workers = new Map<number, WorkerId>();
  readonly stats: RadixStats = {
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

  readonly #countStores: boolean;

  constructor({ countStores = false }: { readonly countStores?: boolean } = {}) {
    this.#countStores = countStores;
  }

  /** As the index's, names and contents as lists. */
  store(
    owner: number,
    tier: Tier,
    parentName: bigint | null,
    names: readonly bigint[],
    contents: readonly bigint[],
  ): StoreOutcome {
    if (
      new Set(parentName === null ? names : [parentName, ...names]).size <
      names.length + Number(parentName !== null)
    ) {
      this.stats.selfReferences++;
      return 'self-reference';
    }
    const named = this.#namesOf(owner);
    let before: Block | null = null;
    if (parentName !== null) {
      before = named.get(parentName) ?? null;
      if (before === null) {
        this.stats.unknownParents++;
        return 'unknown-parent';
      }
    }
    let at: Block | null | undefined = before;
    for (let i = 0; i < names.length; i++) {
      if (at !== undefined) at = this.#after(at, contents[i]!);
      const known = named.get(names[i]!);
      if (known !== undefined && known !== at) {
        this.stats.conflictingStores++;
        return 'duplicate';
      }
    }
    const t = TIERS.indexOf(tier);
    let changed = 0;
    at = before;
    for (let i = 0; i < names.length; i++) {
      at = this.#after(at, contents[i]!) ?? this.#grow(at, contents[i]!);
      if (this.#hold(owner, t, names[i]!, at)) changed++;
    }
    this.stats.duplicateStores += names.length - changed;
    if (changed === 0) return 'duplicate';
    this.stats.version++;
    return 'stored';
  }

  /** As the index's. */
  remove(owner: number, tier: Tier, names: readonly bigint[]): number {
    const named = this.#namesOf(owner);
    const t = TIERS.indexOf(tier);
    let removed = 0;
    let unknown = 0;
    for (const name of names) {
      const block = named.get(name);
      const holding = block?.holders.get(owner)?.find((of) => of.name === name);
      if (block === undefined || holding === undefined || holding.copies[t] === 0) {
        unknown++;
        continue;
      }
      this.#release(owner, block, holding, t);
      removed++;
    }
    if (removed > 0) this.stats.version++;
    const owed = this.#owed.get(owner) ?? 0;
    const evicted = Math.min(owed, unknown);
    this.#owed.set(owner, owed - evicted);
    this.stats.evictedRemoves += evicted;
    this.stats.unknownRemoves += unknown - evicted;
    return removed + evicted;
  }

  /** What the index says it has evicted. @throws Error for what is not held. */
  evict(owner: number, name: bigint): void {
    const block = this.#namesOf(owner).get(name);
    const holding = block?.holders.get(owner)?.find((of) => of.name === name);
    if (block === undefined || holding === undefined)
      throw new Error(`${name} of ${owner} was evicted, but is not held`);
    for (const tier of TIERS.keys()) {
      if (holding.copies[tier] === 0) continue;
      holding.copies[tier] = 1;
      this.#owed.set(owner, (this.#owed.get(owner) ?? 0) + 1);
      this.#release(owner, block, holding, tier);
    }
    this.stats.evicted++;
  }

  /** As the index's. */
  clear(owner: number, tier: Tier | 'all'): void {
    if (this.#forget(owner, tier)) this.stats.version++;
  }

  /** As the index's. */
  bindOwner(owner: number, worker: WorkerId): void {
    const before = this.#workers.get(owner);
    this.#workers.set(owner, worker);
    if (before !== undefined && before !== worker && this.#forget(owner, 'all')) this.stats.version++;
  }

  /** As the index's. */
  removeWorker(worker: WorkerId): void {
    let changed = false;
    for (const [owner, of] of [...this.#workers]) {
      if (of !== worker) continue;
      this.#workers.delete(owner);
      changed = this.#forget(owner, 'all') || changed;
    }
    if (changed) this.stats.version++;
  }

  /** Rows of a match, ascending by owner. */
  find(contents: readonly bigint[], tiers: readonly Tier[]): RadixRow[] {
    const path = this.#path(contents);
    const rows: RadixRow[] = [];
    for (const owner of [...(path[0]?.holders.keys() ?? [])].sort((a, b) => a - b)) {
      let at = 0;
      const depths = TIERS.map((tier, t) => {
        const start = at;
        while (tiers.includes(tier) && at < path.length && onTier(path[at]!.holders.get(owner), t)) at++;
        return at - start;
      });
      if (at > 0) rows.push({ owner, depths });
    }
    return rows;
  }

  /** Newest names of blocks [from, …) of a chain, up to the first the owner does not hold. */
  names(owner: number, contents: readonly bigint[], from: number): bigint[] {
    const found: bigint[] = [];
    for (const block of this.#path(contents).slice(from)) {
      const name = block.holders.get(owner)?.at(-1);
      if (name === undefined) break;
      found.push(name.name);
    }
    return found;
  }

  #namesOf(owner: number): Map<bigint, Block> {
    let named = this.#named.get(owner);
    if (named === undefined) {
      named = new Map();
      this.#named.set(owner, named);
    }
    return named;
  }

  #path(contents: readonly bigint[]): Block[] {
    const path: Block[] = [];
    for (let at: Block | null | undefined = null; path.length < contents.length; ) {
      at = this.#after(at, contents[path.length]!);
      if (at === undefined) break;
      path.push(at);
    }
    return path;
  }

  /** The block with a content behind another one (null = at the root). */
  #after(before: Block | null, content: bigint): Block | undefined {
    const node = before?.node ?? this.#root;
    const next = before === null ? undefined : node.edge[node.edge.indexOf(before) + 1];
    if (next !== undefined) return next.content === content ? next : undefined;
    return node.children.get(content)?.edge[0];
  }

  #grow(before: Block | null, content: bigint): Block {
    let node = before?.node ?? this.#root;
    if (before !== null && node.edge.at(-1) !== before) this.#split(node, node.edge.indexOf(before) + 1);
    if (before === null || node.children.size > 0) {
      const child: Node = { parent: node, edge: [], children: new Map() };
      node.children.set(content, child);
      node = child;
    }
    const block: Block = { node, content, holders: new Map() };
    node.edge.push(block);
    return block;
  }

  #split(node: Node, at: number): void {
    const lower: Node = { parent: node, edge: node.edge.slice(at), children: node.children };
    for (const block of lower.edge) block.node = lower;
    for (const child of lower.children.values()) child.parent = lower;
    node.edge = node.edge.slice(0, at);
    node.children = new Map([[lower.edge[0]!.content, lower]]);
  }

  /** Holds one more copy; whether there was none. */
  #hold(owner: number, tier: number, name: bigint, block: Block): boolean {
    let names = block.holders.get(owner);
    if (names === undefined) {
      if (block.holders.size === 0) this.stats.blocks++;
      names = [];
      block.holders.set(owner, names);
    }
    let holding = names.find((of) => of.name === name);
    const before = onTier(names, tier);
    if (holding === undefined) {
      holding = { name, copies: TIERS.map(() => 0) };
      names.push(holding);
      this.#namesOf(owner).set(name, block);
      this.stats.holdings++;
    }
    const isNew = holding.copies[tier] === 0;
    if (isNew || this.#countStores) holding.copies[tier]!++;
    if (!before) this.stats.residencies++;
    return isNew;
  }

  #release(owner: number, block: Block, holding: Name, tier: number): void {
    const names = block.holders.get(owner)!;
    holding.copies[tier]!--;
    if (!onTier(names, tier)) this.stats.residencies--;
    if (holding.copies.some((copies) => copies > 0)) return;
    names.splice(names.indexOf(holding), 1);
    this.#namesOf(owner).delete(holding.name);
    this.stats.holdings--;
    if (names.length > 0) return;
    block.holders.delete(owner);
    if (block.holders.size > 0) return;
    this.stats.blocks--;
    this.#prune(block.node);
  }

  /** Takes blocks off the end of a branch that nobody holds and nothing hangs on. */
  #prune(from: Node): void {
    for (let node: Node | null = from; node !== null && node.children.size === 0; node = node.parent) {
      const first = node.edge[0];
      while (node.edge.at(-1)?.holders.size === 0) node.edge.pop();
      if (node.edge.length > 0 || first === undefined) return;
      node.parent?.children.delete(first.content);
    }
  }

  #forget(owner: number, tier: Tier | 'all'): boolean {
    if (tier === 'all') this.#owed.delete(owner);
    let changed = false;
    for (const [name, block] of [...this.#namesOf(owner)]) {
      const holding = block.holders.get(owner)!.find((of) => of.name === name)!;
      for (const [t, other] of TIERS.entries()) {
        if ((tier !== 'all' && tier !== other) || holding.copies[t] === 0) continue;
        holding.copies[t] = 1;
        this.#release(owner, block, holding, t);
        changed = true;
      }
    }
    return changed;
  }
}
