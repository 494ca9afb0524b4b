// The prefix index's final interface. What a worker holds is said by its engine in the engine's own (external) hashes; the
// index is keyed by the router's sequence hashes and translates.
import type { WorkerId } from '../../plugin/index.ts';
import type { HashPairs, U64 } from '../hashing/types.ts';

/** Dense slot number of one (worker, rank); given out by the fleet, reused after a worker is gone. */
export type OwnerSlot = number;

/** Where a block lies, nearest to compute first. */
export const TIERS = ['device', 'host', 'disk', 'external'] as const;
/** One storage tier. */
export type Tier = (typeof TIERS)[number];

/** What became of a store: `unknown-parent` and `self-reference` change nothing. */
export type StoreOutcome = 'stored' | 'duplicate' | 'unknown-parent' | 'self-reference';

/** What a prompt finds. Row r is an owner with at least one matching block on an asked tier. */
export interface PrefixMatch {
  /** Number of rows. */
  readonly count: number;
  /** Owner slots, ascending. */
  readonly owners: Int32Array;
  /**
   * Leading blocks per tier of `TIERS`, `depthPerTier[tierIndex][row]`: device = contiguous depth from the root; each further
   * tier = additional contiguous blocks beyond the shallower tiers (not cumulative). Tiers not asked are all zero.
   */
  readonly depthPerTier: readonly Int32Array[];
  /** Version of the index the match was read from. */
  readonly version: number;
}

/** One row of a dump: a block one owner holds on one tier. */
export interface DumpedBlock {
  readonly owner: OwnerSlot;
  readonly tier: Tier;
  readonly external: U64;
  readonly sequence: U64;
  readonly local: U64;
  /** Sequence hash of the block before, null at a root. */
  readonly parent: U64 | null;
  /** Position in its chain, 0-based. */
  readonly position: number;
}

/** A page of a dump; `cursor` null = the end. */
export interface DumpPage {
  readonly blocks: readonly DumpedBlock[];
  readonly cursor: number | null;
}

/** Counts for gauges and tests. */
export interface PrefixIndexStats {
  /** Distinct resident blocks (any owner, any tier). */
  readonly blocks: number;
  /** (owner, tier, block) residencies. */
  readonly residencies: number;
  /** Bytes of all array buffers held. */
  readonly bytes: number;
  readonly version: number;
  readonly duplicateStores: number;
  readonly unknownParents: number;
  readonly unknownRemoves: number;
}

/** Which worker and rank hold which blocks. All calls are synchronous; each store or remove is atomic. */
export interface PrefixIndex {
  /**
   * Blocks `external[i]` (the engine's hashes) with contents `local[i]` now lie on `tier` of `owner`, chained behind
   * `parentExternal` (null = at position 0). The parent must be known for this owner, on any tier.
   */
  store(
    owner: OwnerSlot,
    tier: Tier,
    parentExternal: U64 | null,
    external: HashPairs,
    local: HashPairs,
  ): StoreOutcome;
  /** Removes by the engine's hashes; unknown ones are counted and skipped. Returns how many were removed. */
  remove(owner: OwnerSlot, tier: Tier, external: HashPairs): number;
  /** Forgets everything of one owner on one tier or all. */
  clear(owner: OwnerSlot, tier: Tier | 'all'): void;
  /** Binds a slot to a worker, so that `removeWorker` finds it. */
  bindOwner(owner: OwnerSlot, worker: WorkerId): void;
  /** Forgets every slot of a worker and their binding. */
  removeWorker(worker: WorkerId): void;
  /** Longest resident prefix per owner. The result is reused by the next `find`: copy what must stay. */
  find(local: HashPairs, sequence: HashPairs, tiers: readonly Tier[]): PrefixMatch;
  /**
   * The engine's hashes of `owner` for blocks [from, to) of a chain of sequence hashes, written to `out` from 0; stops at the
   * first block the owner does not hold on any tier. Returns how many were written.
   */
  externalHashes(
    owner: OwnerSlot,
    sequence: HashPairs,
    from: number,
    to: number,
    out: BigUint64Array,
  ): number;
  /** Whether `owner` holds the block with this sequence hash on `tier`. */
  holds(owner: OwnerSlot, tier: Tier, sequenceHash: U64): boolean;
  /** Pages through all residencies; start with cursor 0. Not a snapshot: calls in between may change it. */
  dump(cursor: number, limit: number): DumpPage;
  stats(): PrefixIndexStats;
}
