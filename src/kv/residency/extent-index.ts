// The prefix index: every stored block is renamed to the router's own sequence hash, which includes all before it, so that engines
// with different hashes share it and a hole in the middle of a chain is nothing special; blocks lie in extents of their chain, so
// that a lookup goes by extents. This file applies events; the extents, names, holders, clears and the walk have their own.
import type { WorkerId } from '../../plugin/index.ts';
import type { BlockHasher, HashPairs, U64 } from '../hashing/types.ts';
import { requireWholePairs } from '../hashing/u64.ts';
import { Departures } from './departures.ts';
import { dumpPage } from './dump-page.ts';
import { writeEngineHashes } from './engine-hashes.ts';
import { EventScratch } from './event-scratch.ts';
import { BLOCK } from './extent-layout.ts';
import { ExtentWalk } from './extent-walk.ts';
import { Extents } from './extents.ts';
import { heldChain } from './held-chain.ts';
import {
  requireOption,
  requireOwner,
  requirePage,
  requireRange,
  requireSameLength,
} from './index-arguments.ts';
import { IndexCap } from './index-cap.ts';
import { IndexWatchers } from './index-watchers.ts';
import type { PrefixIndexOptions } from './prefix-index-options.ts';
import { RemoveEvent } from './remove-event.ts';
import { Residencies } from './residencies.ts';
import { restoreBlock } from './restore-block.ts';
import { MAX_ROWS } from './segmented-rows.ts';
import { SlotBindings } from './slot-bindings.ts';
import { StoreEvent } from './store-event.ts';
import { Sweeper } from './sweeper.ts';
import { ALL_TIERS, tierBit, tierIndex, tierMask } from './tier-bits.ts';
import {
  type CopyableIndex,
  type DeviceFollower,
  type DumpedBlock,
  type DumpPage,
  type FollowedIndex,
  type HeldChain,
  type IndexWatcher,
  type OwnerSlot,
  type PrefixIndexStats,
  type PrefixMatch,
  type StoreOutcome,
  TIERS,
  type Tier,
} from './types.ts';

const NONE = -1;
/** A piece of a clear: about a millisecond. */
const SWEEP_PLACES = 8192;
/** With what the last extent of a piece reaches beyond, 65,536 at most. */
const MOST_SWEEP_PLACES = 65_536 - 64;

/** Look-ups and stores between which no extent counts as matched longer ago: 2^32 steps of so many are weeks. */
const CALLS_PER_STEP = 16;
/**
 * An empty prefix index in typed arrays.
 * @throws PM_KV_ARGUMENT for an option out of range. Its methods throw PM_KV_ARGUMENT for an owner slot outside 0 to 65,535 and for
 * lists of hashes that do not fit together, and `store` throws PM_KV_INDEX_FULL for an event larger than a cap; it has stored nothing then.
 */
export function createPrefixIndex(options: PrefixIndexOptions): FollowedIndex {
  return new ExtentIndex(options);
}

class ExtentIndex implements FollowedIndex {
  readonly #hasher: Pick<BlockHasher, 'chain'>;
  readonly #cap: IndexCap;
  readonly #extents = new Extents();
  readonly #residencies: Residencies;
  readonly #walk: ExtentWalk;
  readonly #event: StoreEvent;
  readonly #remove: RemoveEvent;
  readonly #scratch = new EventScratch();
  /** Look-ups and stores so far. */
  #calls = 0;
  #evictedRemoves = 0;
  readonly #onNotHeld: PrefixIndexOptions['onNotHeld'];
  readonly #bindings = new SlotBindings();
  readonly #watchers: IndexWatchers;
  readonly #sweeper: Sweeper;
  #version = 0;
  #duplicateStores = 0;
  #conflictingStores = 0;
  #selfReferences = 0;
  #unknownParents = 0;
  #unknownRemoves = 0;

  constructor(options: PrefixIndexOptions) {
    const { hasher, maxHoldings = MAX_ROWS, countStores = false, sweepPlaces = SWEEP_PLACES } = options;
    requireOption(maxHoldings, 1, MAX_ROWS, 'the prefix index can be capped at', 'holdings');
    requireOption(sweepPlaces, 1, MOST_SWEEP_PLACES, 'a piece of a clear can look at', 'places');
    this.#hasher = hasher;
    this.#onNotHeld = options.onNotHeld;
    const counts = typeof countStores === 'boolean' ? () => countStores : countStores;
    this.#residencies = new Residencies(this.#extents, counts, sweepPlaces);
    this.#watchers = new IndexWatchers(this.#residencies, this.#extents);
    this.#sweeper = new Sweeper(this.#residencies.cleared, options.later);
    this.#event = new StoreEvent(this.#extents, this.#residencies);
    this.#remove = new RemoveEvent(this.#residencies);
    this.#walk = new ExtentWalk(this.#extents, this.#residencies.cleared);
    this.#cap = new IndexCap(this.#extents, this.#residencies, {
      maxHoldings,
      maxBytes: options.maxBytes ?? Number.POSITIVE_INFINITY,
      evicted: options.evicted,
      onEvicted: options.onEvicted,
      otherBytes: () => this.#walk.bytes + this.#event.bytes + this.#scratch.bytes,
    });
  }

  store(
    owner: OwnerSlot,
    tier: Tier,
    parentExternal: U64 | null,
    external: HashPairs,
    local: HashPairs,
  ): StoreOutcome {
    requireOwner(owner);
    requireSameLength('external', external, 'local', local);
    const mixes = this.#scratch.mix(external);
    if (this.#scratch.repeats(parentExternal, external, mixes)) {
      this.#selfReferences++;
      return 'self-reference';
    }
    let state = this.#residencies.of(owner);
    let parent = NONE;
    if (parentExternal !== null) {
      const name =
        state === undefined
          ? NONE
          : this.#residencies.names.findParent(state, parentExternal.lo | 0, parentExternal.hi | 0);
      if (name === NONE) {
        this.#unknownParents++;
        return 'unknown-parent';
      }
      parent = this.#residencies.blockOf(name);
    }
    const before = parent === NONE ? null : this.#extents.hashOf(parent, BLOCK.SEQUENCE);
    const sequence = this.#scratch.sequence(local.length >> 1);
    this.#hasher.chain(before, local, sequence);
    let added = this.#event.match(state, parent, external, mixes, sequence);
    this.#cap.begin(owner, external.length >> 1);
    while (added > 0 && this.#cap.lacks(added)) {
      const hadEvicted = this.#cap.hasEvicted;
      const hasMade = this.#cap.makeRoom(added, parent);
      this.#residencies.departures?.tell();
      if (!hasMade) this.#cap.refuse(added);
      if (this.#cap.hasEvicted && !hadEvicted) this.#version++;
      state = this.#residencies.of(owner);
      added = this.#event.match(state, parent, external, mixes, sequence);
    }
    if (added === NONE) {
      this.#conflictingStores++;
      return 'duplicate';
    }
    if (added > 0) {
      this.#cap.letGrow();
      state = this.#residencies.toFill(owner);
    }
    this.#step();
    const changed =
      state === undefined
        ? 0
        : this.#event.apply(state, tierIndex(tier), parent, external, mixes, local, sequence);
    this.#duplicateStores += (external.length >> 1) - changed;
    if (changed === 0) return 'duplicate';
    this.#version++;
    return 'stored';
  }

  remove(owner: OwnerSlot, tier: Tier, external: HashPairs): number {
    requireOwner(owner);
    requireWholePairs(external);
    const state = this.#residencies.of(owner);
    const blocks = external.length >> 1;
    let removed = 0;
    if (state !== undefined) {
      const told = this.#watchers.told(tier);
      removed = this.#remove.apply(state, tierIndex(tier), external, this.#scratch.mix(external), told);
      this.#residencies.departures?.tell();
    }
    const evicted = Math.min(blocks - removed, state?.evicted ?? 0);
    if (state !== undefined) state.evicted -= evicted;
    this.#evictedRemoves += evicted;
    const unknown = blocks - removed - evicted;
    this.#unknownRemoves += unknown;
    if (removed < blocks) this.#onNotHeld?.(evicted, unknown);
    if (removed > 0) this.#version++;
    return removed + evicted;
  }

  knows(owner: OwnerSlot, external: U64): boolean {
    requireOwner(owner);
    const state = this.#residencies.of(owner);
    return (
      state !== undefined && this.#residencies.names.find(state, external.lo | 0, external.hi | 0) !== NONE
    );
  }

  hasRow(owner: OwnerSlot, tier: Tier, external: U64): boolean {
    requireOwner(owner);
    const state = this.#residencies.of(owner);
    if (state === undefined) return false;
    const name = this.#residencies.names.find(state, external.lo | 0, external.hi | 0);
    return name !== NONE && (this.#residencies.tiersOf(name) & tierBit(tier)) !== 0;
  }

  lacksRoomFor(owner: OwnerSlot): boolean {
    requireOwner(owner);
    return (this.#residencies.of(owner)?.evicted ?? 0) > 0;
  }

  leftOut(owner: OwnerSlot, blocks: number): void {
    requireOwner(owner);
    this.#residencies.toFill(owner).evicted += blocks;
  }

  clear(owner: OwnerSlot, tier: Tier | 'all'): void {
    requireOwner(owner);
    if (this.#forget(owner, tier === 'all' ? ALL_TIERS : tierBit(tier))) this.#version++;
    this.#sweeper.sweep();
  }

  bindOwner(owner: OwnerSlot, worker: WorkerId): void {
    requireOwner(owner);
    // What a slot held under another worker says nothing about this one.
    if (!this.#bindings.bind(owner, worker)) return;
    if (this.#forget(owner, ALL_TIERS)) this.#version++;
    this.#sweeper.sweep();
  }

  removeWorker(worker: WorkerId): void {
    let changed = false;
    for (const owner of this.#bindings.release(worker)) {
      changed = this.#forget(owner, ALL_TIERS) || changed;
    }
    if (changed) this.#version++;
    this.#sweeper.sweep();
  }

  find(local: HashPairs, sequence: HashPairs, tiers: readonly Tier[]): PrefixMatch {
    requireSameLength('local', local, 'sequence', sequence);
    this.#step();
    return this.#walk.walk(sequence, tierMask(tiers), this.#version);
  }

  externalHashes(
    owner: OwnerSlot,
    sequence: HashPairs,
    from: number,
    to: number,
    out: BigUint64Array,
  ): number {
    requireOwner(owner);
    requireWholePairs(sequence);
    requireRange(from, to, sequence.length >> 1, out.length);
    const state = this.#residencies.of(owner);
    if (state === undefined) return 0;
    const pairs = new Uint32Array(out.buffer, out.byteOffset, 2 * out.length);
    return writeEngineHashes(this.#extents, this.#residencies, state, sequence, from, to, pairs);
  }

  holds(owner: OwnerSlot, tier: Tier, sequence: HashPairs, index: number): boolean {
    requireOwner(owner);
    requireWholePairs(sequence);
    requireRange(index, index + 1, sequence.length >> 1, 1);
    const state = this.#residencies.of(owner);
    const block = this.#extents.locate(sequence, index);
    if (state === undefined || block === NONE) return false;
    return (this.#residencies.tiersOfBlock(block, state) & tierBit(tier)) !== 0;
  }

  dump(cursor: number, limit: number): DumpPage {
    requirePage(cursor, limit);
    return dumpPage(this.#residencies, this.#extents, cursor, limit);
  }

  blocksOf(owner: OwnerSlot): readonly number[] {
    requireOwner(owner);
    return [...(this.#residencies.of(owner)?.held ?? TIERS.map(() => 0))];
  }

  watch(watcher: IndexWatcher): () => void {
    return this.#watchers.add(watcher);
  }

  follow(follower: DeviceFollower | null): void {
    this.#residencies.departures = follower && new Departures(this.#extents, follower);
  }

  heldChain(owner: OwnerSlot, external: HashPairs): HeldChain | null {
    requireOwner(owner);
    requireWholePairs(external);
    const state = this.#residencies.of(owner);
    return state === undefined ? null : heldChain(this.#extents, this.#residencies, state, external);
  }

  restoreBlock(row: DumpedBlock, behind: Parameters<CopyableIndex['restoreBlock']>[1]): boolean {
    requireOwner(row.owner);
    this.#sweeper.sweepAll();
    this.#cap.begin(row.owner, 1);
    // What is live already is worth more than what was.
    if (this.#cap.lacks(1)) this.#cap.refuse(1);
    this.#cap.letGrow();
    if (!restoreBlock(this.#residencies, this.#extents, row, behind)) return false;
    this.#version++;
    return true;
  }

  stats(): PrefixIndexStats {
    return {
      blocks: this.#extents.live,
      residencies: this.#residencies.count,
      holdings: this.#residencies.columns.live,
      holderSets: this.#extents.sets.count,
      bytes: this.#cap.bytes,
      probes: this.#extents.firsts.probes + this.#residencies.probes,
      ownersToSweep: this.#residencies.cleared.owners,
      version: this.#version,
      duplicateStores: this.#duplicateStores,
      conflictingStores: this.#conflictingStores,
      selfReferences: this.#selfReferences,
      unknownParents: this.#unknownParents,
      unknownRemoves: this.#unknownRemoves,
      evicted: this.#cap.evicted,
      evictedRemoves: this.#evictedRemoves,
    };
  }

  /** Takes everything of an owner off tiers; whether there was anything. */
  #forget(owner: number, tiers: number): boolean {
    this.#watchers.forgotten(owner);
    if ((tiers & tierBit('device')) !== 0) this.#residencies.departures?.cleared(owner);
    const state = this.#residencies.of(owner);
    return state !== undefined && this.#residencies.clear(state, tiers, tiers === ALL_TIERS);
  }

  /** Time goes on by steps, for what was matched when. */
  #step(): void {
    this.#calls++;
    this.#extents.now = (this.#calls / CALLS_PER_STEP) | 0;
  }
}
