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

/**
 * What became of a store: all but `stored` change nothing. `duplicate` = every block was held already, or an engine hash stands
 * for other content with this owner (a conflict: the old meaning stays and the event is dropped whole).
 */
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
  /** (owner, engine hash) pairs; more than (owner, block) pairs when owners announce one content under several hashes. */
  readonly holdings: number;
  /** Distinct sets of (owner, tiers) that blocks have. */
  readonly holderSets: number;
  /** Bytes of all array buffers held. */
  readonly bytes: number;
  /** Table slots looked at by all lookups so far: lookups stay near 1.5 each while hashing is sound. */
  readonly probes: number;
  /** Owners of which cleared blocks are still in place: counted in `blocks`, `holdings` and `bytes`, seen by nothing else. */
  readonly ownersToSweep: number;
  readonly version: number;
  /** Blocks of accepted stores that their owner held on that tier already. */
  readonly duplicateStores: number;
  /** Stores dropped because an engine hash stands for other content with this owner. */
  readonly conflictingStores: number;
  /** Stores dropped because an engine hash stood in them twice. */
  readonly selfReferences: number;
  /** Stores dropped because their parent is not known for this owner. */
  readonly unknownParents: number;
  /** Engine hashes of removes that their owner did not hold on that tier, those that were evicted left out. */
  readonly unknownRemoves: number;
  /** (Owner, engine hash) pairs that were evicted because the index was full. */
  readonly evicted: number;
  /** Engine hashes of removes not held because they were evicted: of each owner at most as many as were. */
  readonly evictedRemoves: number;
}

/**
 * Which worker and rank hold which blocks. All calls are synchronous; each store or remove is atomic, and each call that changes
 * something raises the version by 1. A block that goes leaves those behind it resident: they match again when it comes back. An
 * index with caps evicts blocks to make room for a store, which raises the version too; engines remove them later all the same.
 */
export interface PrefixIndex {
  /**
   * Blocks `external[i]` (the engine's hashes) with contents `local[i]` now lie on `tier` of `owner`, chained behind
   * `parentExternal` (null = at position 0). The parent must be known for this owner, on any tier, else nothing is indexed: at
   * the root the blocks would match prompts they do not belong to. An engine hash that equals the parent's or stands twice in
   * the event is a self-reference. The second store of an engine hash on a tier changes nothing that is seen; whether one remove
   * undoes both depends on whether the index counts stores. One content may have several engine hashes; the owner holds the block until the last is removed.
   */
  store(
    owner: OwnerSlot,
    tier: Tier,
    parentExternal: U64 | null,
    external: HashPairs,
    local: HashPairs,
  ): StoreOutcome;
  /**
   * Removes by the engine's hashes; unknown ones are counted and skipped. Returns how many were known, or may have been until they
   * were evicted.
   */
  remove(owner: OwnerSlot, tier: Tier, external: HashPairs): number;
  /** Whether the owner holds a block under this engine hash, on any tier. */
  knows(owner: OwnerSlot, external: U64): boolean;
  /**
   * Whether the owner's engine has blocks that are not here for want of room: they were evicted, or left out, and not removed since. An
   * unknown parent is most likely one of them then, and no sign of a lost event.
   */
  lacksRoomFor(owner: OwnerSlot): boolean;
  /** So many blocks that an owner announced were not stored for want of room: they count as if they had been evicted at once. */
  leftOut(owner: OwnerSlot, blocks: number): void;
  /** Forgets everything of one owner on one tier or all. */
  clear(owner: OwnerSlot, tier: Tier | 'all'): void;
  /** Binds a slot to a worker, so that `removeWorker` finds it. A slot that was another worker's forgets what it held. */
  bindOwner(owner: OwnerSlot, worker: WorkerId): void;
  /** Forgets every slot of a worker and their binding. */
  removeWorker(worker: WorkerId): void;
  /** Longest resident prefix per owner. The result is reused by the next `find`: copy what must stay. */
  find(local: HashPairs, sequence: HashPairs, tiers: readonly Tier[]): PrefixMatch;
  /**
   * The engine's hashes of `owner` for blocks [from, to) of a chain of sequence hashes, written to `out` from 0; stops at the
   * first block the owner does not hold on any tier. Of several hashes of one block the one announced last is given. Returns how
   * many were written.
   */
  externalHashes(
    owner: OwnerSlot,
    sequence: HashPairs,
    from: number,
    to: number,
    out: BigUint64Array,
  ): number;
  /** Whether `owner` holds the block at `index` of a chain of sequence hashes on `tier`, whatever it holds before it. */
  holds(owner: OwnerSlot, tier: Tier, sequence: HashPairs, index: number): boolean;
  /**
   * Pages through all residencies, a row for each engine hash and tier; start with cursor 0. Not a snapshot: calls in between
   * may change it. Stored again by ascending position, the rows give an index with the same matches.
   */
  dump(cursor: number, limit: number): DumpPage;
  /** Blocks that an owner holds, per tier of `TIERS`. */
  blocksOf(owner: OwnerSlot): readonly number[];
  stats(): PrefixIndexStats;
}

/** Hears what goes while an index is copied. */
export interface IndexWatcher {
  /** An event takes this name off this tier; it is still there. */
  removing(row: DumpedBlock): void;
  /** Blocks of an owner were forgotten by tier, all of them included, or its slot got another worker. */
  forgotten(owner: OwnerSlot): void;
}

/** Hears what leaves devices, by the router's sequence hashes, once the event that did it is applied. */
export interface DeviceFollower {
  /** An owner has these blocks on its device no more, whatever the reason: removed, or evicted here. The array is used again. */
  left(owner: OwnerSlot, hashes: HashPairs): void;
  /** An owner's device was cleared, or all of it forgotten. */
  cleared(owner: OwnerSlot): void;
}

/** Blocks of a chain one after the other. */
export interface HeldChain {
  /** Sequence hash of the block before the first; null = the first begins a prompt. */
  readonly parent: U64 | null;
  /** Their sequence hashes. */
  readonly hashes: HashPairs;
}

/** A prefix index whose devices can be followed. */
export interface FollowedIndex extends CopyableIndex {
  /** Tells `follower` from now on, in place of who was told before; null = nobody. */
  follow(follower: DeviceFollower | null): void;
  /**
   * The blocks that an owner names by these engine hashes, on whatever tier. Hashes that it does not know are left out, and the first
   * block that does not follow the one before ends the chain. Null when it knows none.
   */
  heldChain(owner: OwnerSlot, external: HashPairs): HeldChain | null;
}

/** A prefix index that can be copied while it changes, and filled from a copy. */
export interface CopyableIndex extends PrefixIndex {
  /** Tells `watcher` from now on; the function returned ends it. */
  watch(watcher: IndexWatcher): () => void;
  /** Whether the owner has this engine hash on this tier, so that a dump has a row of it. */
  hasRow(owner: OwnerSlot, tier: Tier, external: U64): boolean;
  /**
   * Puts one row of a dump in without its parent, which the owner need not hold: the row says where it stands. Right only for rows
   * whose sequence hash is that of their place.
   * @param behind a name of the block before it, of whichever owner; null = nobody holds that block.
   * @returns false when the name stands for other content already; then nothing changed.
   */
  restoreBlock(
    row: DumpedBlock,
    behind: { readonly owner: OwnerSlot; readonly external: U64 } | null,
  ): boolean;
}
