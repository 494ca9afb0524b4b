// The prefix index said as plainly as possible: a list of (owner, engine hash) → block with its tiers, every question answered by
// going through it. It is what the real index must equal, and it says what the interface means where words leave doubt.
import type { WorkerId } from '../../plugin/index.ts';
import type { BlockHasher, HashPairs, U64 } from '../hashing/types.ts';
import { fromBigUint64Array, toBigUint64Array, u64FromBigInt, u64ToBigInt } from '../hashing/u64.ts';
import {
  type CopyableIndex,
  type DumpedBlock,
  type DumpPage,
  type PrefixIndexStats,
  type PrefixMatch,
  type StoreOutcome,
  TIERS,
  type Tier,
} from './types.ts';

/** One engine hash of one owner. */
interface NaiveHolding {
  readonly owner: number;
  readonly external: bigint;
  readonly sequence: bigint;
  readonly local: bigint;
  readonly parent: bigint | null;
  readonly position: number;
  /** Copies per tier it lies on. */
  readonly tiers: Map<Tier, number>;
}

/** The counters that only grow. */
interface Counters {
  version: number;
  duplicateStores: number;
  conflictingStores: number;
  selfReferences: number;
  unknownParents: number;
  unknownRemoves: number;
  evicted: number;
  evictedRemoves: number;
}

/** A prefix index for tests: slow, small and obviously right. Sizes in bytes, probes and sets of holders are 0. */
export class NaivePrefixIndex implements CopyableIndex {
  readonly #hasher: Pick<BlockHasher, 'chain'>;
  readonly #workers = new Map<number, WorkerId>();
  readonly #counters: Counters = {
    version: 0,
    duplicateStores: 0,
    conflictingStores: 0,
    selfReferences: 0,
    unknownParents: 0,
    unknownRemoves: 0,
    evicted: 0,
    evictedRemoves: 0,
  };
  #holdings: NaiveHolding[] = [];
  /** (Tier, name) pairs evicted and not removed since, by owner. */
  readonly #owed = new Map<number, number>();

  readonly #countStores: boolean;

  constructor(hasher: Pick<BlockHasher, 'chain'>, countStores = false) {
    this.#hasher = hasher;
    this.#countStores = countStores;
  }

  store(
    owner: number,
    tier: Tier,
    parentExternal: U64 | null,
    external: HashPairs,
    local: HashPairs,
  ): StoreOutcome {
    const names = [...toBigUint64Array(external)];
    const contents = [...toBigUint64Array(local)];
    const parentName = parentExternal === null ? [] : [u64ToBigInt(parentExternal)];
    if (new Set([...parentName, ...names]).size < parentName.length + names.length) {
      this.#counters.selfReferences++;
      return 'self-reference';
    }
    const parent = parentName.length === 0 ? null : this.#named(owner, parentName[0]!);
    if (parent === undefined) {
      this.#counters.unknownParents++;
      return 'unknown-parent';
    }
    const before = parent === null ? null : u64FromBigInt(parent.sequence);
    const chained = new Uint32Array(local.length);
    this.#hasher.chain(before, local, chained);
    const sequences = [...toBigUint64Array(chained)];
    const told = names.map((name, i) => ({
      owner,
      external: name,
      sequence: sequences[i]!,
      local: contents[i]!,
      parent: i > 0 ? sequences[i - 1]! : (parent?.sequence ?? null),
      position: (parent?.position ?? -1) + 1 + i,
      tiers: new Map([[tier, 1]]),
    }));
    if (told.some((t) => (this.#named(owner, t.external)?.sequence ?? t.sequence) !== t.sequence)) {
      this.#counters.conflictingStores++;
      return 'duplicate';
    }
    let stored = 0;
    for (const holding of told) {
      const known = this.#named(owner, holding.external);
      const copies = known?.tiers.get(tier);
      if (copies !== undefined) {
        if (this.#countStores) known?.tiers.set(tier, copies + 1);
        continue;
      }
      if (known) known.tiers.set(tier, 1);
      else this.#holdings.push(holding);
      stored++;
    }
    this.#counters.duplicateStores += told.length - stored;
    this.#changed(stored > 0);
    return stored > 0 ? 'stored' : 'duplicate';
  }

  remove(owner: number, tier: Tier, external: HashPairs): number {
    let removed = 0;
    let unknown = 0;
    for (const name of toBigUint64Array(external)) {
      const tiers = this.#named(owner, name)?.tiers;
      const copies = tiers?.get(tier) ?? 0;
      if (copies > 0) removed++;
      else unknown++;
      if (copies > 1) tiers?.set(tier, copies - 1);
      else tiers?.delete(tier);
      this.#sweep();
    }
    this.#changed(removed > 0);
    const owed = this.#owed.get(owner) ?? 0;
    const evicted = Math.min(owed, unknown);
    this.#owed.set(owner, owed - evicted);
    this.#counters.evictedRemoves += evicted;
    this.#counters.unknownRemoves += unknown - evicted;
    return removed + evicted;
  }

  /** What the real index says it has evicted. */
  evict(gone: readonly { readonly owner: number; readonly external: bigint }[]): void {
    for (const { owner, external } of gone) {
      const tiers = this.#named(owner, external)?.tiers;
      if (tiers === undefined) throw new Error(`${external} of ${owner} was evicted, but is not held`);
      this.#owed.set(owner, (this.#owed.get(owner) ?? 0) + tiers.size);
      tiers.clear();
      this.#sweep();
    }
    this.#counters.evicted += gone.length;
  }

  blocksOf(owner: number): readonly number[] {
    const held = TIERS.map(() => new Set<bigint>());
    for (const h of this.#holdings) {
      if (h.owner === owner) for (const tier of h.tiers.keys()) held[TIERS.indexOf(tier)]!.add(h.sequence);
    }
    return held.map(({ size }) => size);
  }

  knows(owner: number, external: U64): boolean {
    return this.#named(owner, u64ToBigInt(external)) !== undefined;
  }

  hasRow(owner: number, tier: Tier, external: U64): boolean {
    return this.#named(owner, u64ToBigInt(external))?.tiers.has(tier) ?? false;
  }

  /** Nothing is told: a copy is taken while nothing changes. */
  watch(): () => void {
    return () => undefined;
  }

  restoreBlock(row: DumpedBlock): boolean {
    const external = u64ToBigInt(row.external);
    const sequence = u64ToBigInt(row.sequence);
    const parent = row.parent === null ? null : u64ToBigInt(row.parent);
    const { owner, position } = row;
    let holding = this.#named(owner, external);
    if (holding === undefined) {
      const local = u64ToBigInt(row.local);
      holding = { owner, external, sequence, local, parent, position, tiers: new Map() };
      this.#holdings.push(holding);
    }
    if (holding.sequence !== sequence) return false;
    holding.tiers.set(row.tier, 1);
    this.#changed(true);
    return true;
  }

  lacksRoomFor(owner: number): boolean {
    return (this.#owed.get(owner) ?? 0) > 0;
  }

  leftOut(owner: number, blocks: number): void {
    this.#owed.set(owner, (this.#owed.get(owner) ?? 0) + blocks);
  }

  clear(owner: number, tier: Tier | 'all'): void {
    this.#changed(this.#forget(owner, tier));
  }

  bindOwner(owner: number, worker: WorkerId): void {
    const before = this.#workers.get(owner);
    if (before !== undefined && before !== worker) this.#changed(this.#forget(owner, 'all'));
    this.#workers.set(owner, worker);
  }

  removeWorker(worker: WorkerId): void {
    const owners = [...this.#workers].filter(([, of]) => of === worker).map(([owner]) => owner);
    for (const owner of owners) this.#workers.delete(owner);
    this.#changed(owners.map((owner) => this.#forget(owner, 'all')).includes(true));
  }

  find(_local: HashPairs, sequence: HashPairs, tiers: readonly Tier[]): PrefixMatch {
    const chain = toBigUint64Array(sequence);
    const owners = [...new Set(this.#holdings.map((h) => h.owner))].sort((a, b) => a - b);
    const rows: { owner: number; depths: number[] }[] = [];
    for (const owner of owners) {
      let at = 0;
      const depths = TIERS.map((tier) => {
        const start = at;
        while (tiers.includes(tier) && at < chain.length && this.#on(owner, tier, chain[at]!)) at++;
        return at - start;
      });
      if (at > 0) rows.push({ owner, depths });
    }
    return {
      count: rows.length,
      owners: Int32Array.from(rows, (row) => row.owner),
      depthPerTier: TIERS.map((_, t) => Int32Array.from(rows, (row) => row.depths[t]!)),
      version: this.#counters.version,
    };
  }

  externalHashes(owner: number, sequence: HashPairs, from: number, to: number, out: BigUint64Array): number {
    const chain = toBigUint64Array(sequence);
    for (let i = from; i < to; i++) {
      const holding = this.#holdings.findLast((h) => h.owner === owner && h.sequence === chain[i]);
      if (holding === undefined) return i - from;
      out[i - from] = holding.external;
    }
    return to - from;
  }

  holds(owner: number, tier: Tier, sequence: HashPairs, index: number): boolean {
    return this.#on(owner, tier, toBigUint64Array(sequence)[index]!);
  }

  dump(cursor: number, limit: number): DumpPage {
    const all = this.#holdings.flatMap((h) =>
      TIERS.filter((tier) => h.tiers.has(tier)).map(
        (tier): DumpedBlock => ({
          owner: h.owner,
          tier,
          external: u64FromBigInt(h.external),
          sequence: u64FromBigInt(h.sequence),
          local: u64FromBigInt(h.local),
          parent: h.parent === null ? null : u64FromBigInt(h.parent),
          position: h.position,
        }),
      ),
    );
    const end = cursor + limit;
    return { blocks: all.slice(cursor, end), cursor: end < all.length ? end : null };
  }

  stats(): PrefixIndexStats {
    const residencies = this.#holdings.flatMap((h) =>
      [...h.tiers.keys()].map((t) => `${h.owner} ${t} ${h.sequence}`),
    );
    return {
      ...this.#counters,
      blocks: new Set(this.#holdings.map((h) => h.sequence)).size,
      residencies: new Set(residencies).size,
      holdings: this.#holdings.length,
      holderSets: 0,
      ownersToSweep: 0,
      bytes: 0,
      probes: 0,
    };
  }

  /** Sequence hashes of a whole chain, for asking. */
  chain(locals: readonly bigint[]): HashPairs {
    const local = fromBigUint64Array(BigUint64Array.from(locals));
    const sequence = new Uint32Array(local.length);
    this.#hasher.chain(null, local, sequence);
    return sequence;
  }

  #named(owner: number, external: bigint): NaiveHolding | undefined {
    return this.#holdings.find((h) => h.owner === owner && h.external === external);
  }

  #on(owner: number, tier: Tier, sequence: bigint): boolean {
    return this.#holdings.some((h) => h.owner === owner && h.sequence === sequence && h.tiers.has(tier));
  }

  #forget(owner: number, tier: Tier | 'all'): boolean {
    if (tier === 'all') this.#owed.delete(owner);
    const gone = this.#holdings.filter((h) => h.owner === owner && (tier === 'all' || h.tiers.has(tier)));
    for (const holding of gone) {
      if (tier === 'all') holding.tiers.clear();
      else holding.tiers.delete(tier);
    }
    this.#sweep();
    return gone.length > 0;
  }

  #sweep(): void {
    this.#holdings = this.#holdings.filter((h) => h.tiers.size > 0);
  }

  #changed(something: boolean): void {
    if (something) this.#counters.version++;
  }
}
