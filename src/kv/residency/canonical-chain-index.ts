// The prefix index in canonical-chain form: every stored block is renamed to the router's own sequence hash, which includes all
// before it, so one global table answers a lookup exactly, engines with different hashes share it, and a hole in the middle of a
// chain is nothing special. This file applies events; the walk, the holdings and the sets of holders have their own.
import { PointsmanError, type WorkerId } from '../../plugin/index.ts';
import type { BlockHasher, HashPairs, U64 } from '../hashing/types.ts';
import { requireWholePairs } from '../hashing/u64.ts';
import { dumpPage } from './dump-page.ts';
import { EventScratch } from './event-scratch.ts';
import { Holdings } from './holdings.ts';
import { requireOwner, requirePage, requireRange, requireSameLength } from './index-arguments.ts';
import { PrefixWalk } from './prefix-walk.ts';
import { BLOCK, ResidentBlocks } from './resident-blocks.ts';
import { MAX_ROWS } from './row-arena.ts';
import { SlotBindings } from './slot-bindings.ts';
import { ALL_TIERS, tierBit, tierCount, tierMask } from './tier-bits.ts';
import type {
  DumpPage,
  OwnerSlot,
  PrefixIndex,
  PrefixIndexStats,
  PrefixMatch,
  StoreOutcome,
  Tier,
} from './types.ts';

const NONE = -1;

/** Options of {@link createPrefixIndex}. */
export interface PrefixIndexOptions {
  /** Continues chains of sequence hashes; must be the hasher family that hashes prompts. */
  readonly hasher: Pick<BlockHasher, 'chain'>;
  /** Most (owner, engine hash) pairs held at once, 1 to 33,554,431, the default: about 80 bytes each. */
  readonly maxHoldings?: number;
}

/**
 * An empty prefix index in typed arrays.
 * @throws PM_KV_ARGUMENT for a cap out of range. Its methods throw PM_KV_ARGUMENT for an owner slot outside 0 to 65,535 and for
 * lists of hashes that do not fit together, and `store` throws PM_KV_INDEX_FULL at the cap; nothing has changed then.
 */
export function createPrefixIndex(options: PrefixIndexOptions): PrefixIndex {
  return new CanonicalChainIndex(options);
}

class CanonicalChainIndex implements PrefixIndex {
  readonly #hasher: Pick<BlockHasher, 'chain'>;
  readonly #maxHoldings: number;
  readonly #blocks = new ResidentBlocks();
  readonly #holdings = new Holdings();
  readonly #walk = new PrefixWalk(this.#blocks);
  readonly #scratch = new EventScratch();
  readonly #bindings = new SlotBindings();
  #version = 0;
  #residencies = 0;
  #duplicateStores = 0;
  #conflictingStores = 0;
  #selfReferences = 0;
  #unknownParents = 0;
  #unknownRemoves = 0;

  constructor({ hasher, maxHoldings = MAX_ROWS }: PrefixIndexOptions) {
    if (!Number.isInteger(maxHoldings) || maxHoldings < 1 || maxHoldings > MAX_ROWS) {
      throw new PointsmanError(
        'PM_KV_ARGUMENT',
        `the prefix index can be capped at 1 to ${MAX_ROWS} holdings, not at ${maxHoldings}`,
        { details: { maxHoldings } },
      );
    }
    this.#hasher = hasher;
    this.#maxHoldings = maxHoldings;
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
    if (this.#scratch.repeats(parentExternal, external)) {
      this.#selfReferences++;
      return 'self-reference';
    }
    let parent = NONE;
    if (parentExternal !== null) {
      const holding = this.#holdings.find(owner, parentExternal.lo | 0, parentExternal.hi | 0);
      if (holding === NONE) {
        this.#unknownParents++;
        return 'unknown-parent';
      }
      parent = this.#holdings.blockOf(holding);
    }
    const before = parent === NONE ? null : this.#blocks.hashOf(parent, BLOCK.SEQUENCE);
    const sequence = this.#scratch.sequence(local.length >> 1);
    this.#hasher.chain(before, local, sequence);
    const added = this.#match(owner, external, sequence);
    if (added === NONE) {
      this.#conflictingStores++;
      return 'duplicate';
    }
    this.#makeRoom(owner, added);
    const start = parent === NONE ? 0 : this.#blocks.positionOf(parent) + 1;
    const changed = this.#apply(owner, tierBit(tier), before, start, external, local, sequence);
    this.#duplicateStores += (external.length >> 1) - changed;
    if (changed === 0) return 'duplicate';
    this.#version++;
    return 'stored';
  }

  remove(owner: OwnerSlot, tier: Tier, external: HashPairs): number {
    requireOwner(owner);
    requireWholePairs(external);
    const bit = tierBit(tier);
    const blocks = external.length >> 1;
    let removed = 0;
    for (let i = 0; i < blocks; i++) {
      const holding = this.#holdings.find(owner, external[2 * i]! | 0, external[2 * i + 1]! | 0);
      if (holding === NONE || (this.#holdings.tiersOf(holding) & bit) === 0) continue;
      this.#release(holding, bit);
      removed++;
    }
    this.#unknownRemoves += blocks - removed;
    if (removed > 0) this.#version++;
    return removed;
  }

  clear(owner: OwnerSlot, tier: Tier | 'all'): void {
    requireOwner(owner);
    if (this.#forget(owner, tier === 'all' ? ALL_TIERS : tierBit(tier))) this.#version++;
  }

  bindOwner(owner: OwnerSlot, worker: WorkerId): void {
    requireOwner(owner);
    // What a slot held under another worker says nothing about this one.
    if (this.#bindings.bind(owner, worker) && this.#forget(owner, ALL_TIERS)) this.#version++;
  }

  removeWorker(worker: WorkerId): void {
    let changed = false;
    for (const owner of this.#bindings.release(worker)) {
      changed = this.#forget(owner, ALL_TIERS) || changed;
    }
    if (changed) this.#version++;
  }

  find(local: HashPairs, sequence: HashPairs, tiers: readonly Tier[]): PrefixMatch {
    requireSameLength('local', local, 'sequence', sequence);
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
    const pairs = new Uint32Array(out.buffer, out.byteOffset, 2 * out.length);
    let block = NONE;
    for (let i = from; i < to; i++) {
      block = i === from ? this.#blocks.find(sequence, i) : this.#blocks.findAfter(block, sequence, i);
      const holding = block === NONE ? NONE : this.#holdings.first(block, owner);
      if (holding === NONE) return i - from;
      pairs[2 * (i - from)] = this.#holdings.externalLo(holding);
      pairs[2 * (i - from) + 1] = this.#holdings.externalHi(holding);
    }
    return to - from;
  }

  holds(owner: OwnerSlot, tier: Tier, sequenceHash: U64): boolean {
    requireOwner(owner);
    const block = this.#blocks.bySequence.find(sequenceHash.lo | 0, sequenceHash.hi | 0);
    if (block === NONE) return false;
    return (this.#holdings.tiersFrom(this.#holdings.first(block, owner)) & tierBit(tier)) !== 0;
  }

  dump(cursor: number, limit: number): DumpPage {
    requirePage(cursor, limit);
    return dumpPage(this.#holdings, this.#blocks, cursor, limit);
  }

  stats(): PrefixIndexStats {
    return {
      blocks: this.#blocks.rows.live,
      residencies: this.#residencies,
      holdings: this.#holdings.live,
      holderSets: this.#blocks.sets.count,
      bytes: this.#blocks.bytes + this.#holdings.bytes + this.#walk.bytes + this.#scratch.bytes,
      probes: this.#blocks.bySequence.probes + this.#holdings.probes,
      version: this.#version,
      duplicateStores: this.#duplicateStores,
      conflictingStores: this.#conflictingStores,
      selfReferences: this.#selfReferences,
      unknownParents: this.#unknownParents,
      unknownRemoves: this.#unknownRemoves,
    };
  }

  /** Notes which holdings the event's engine hashes have; how many have none, −1 when one stands for another block. */
  #match(owner: number, external: HashPairs, sequence: Uint32Array): number {
    const blocks = external.length >> 1;
    const known = this.#scratch.holdings(blocks);
    let added = 0;
    for (let i = 0; i < blocks; i++) {
      const holding = this.#holdings.find(owner, external[2 * i]! | 0, external[2 * i + 1]! | 0);
      known[i] = holding;
      if (holding === NONE) {
        added++;
        continue;
      }
      if (!this.#blocks.is(this.#holdings.blockOf(holding), sequence, i)) return NONE;
    }
    return added;
  }

  /** Makes the event's blocks held; returns how many were not yet. Nothing in here can fail. */
  #apply(
    owner: number,
    bit: number,
    before: U64 | null,
    start: number,
    external: HashPairs,
    local: HashPairs,
    sequence: Uint32Array,
  ): number {
    const blocks = external.length >> 1;
    const known = this.#scratch.holdings(blocks);
    let changed = 0;
    for (let i = 0; i < blocks; i++) {
      const holding = known[i]!;
      let block: number;
      let first = NONE;
      if (holding === NONE) {
        block = this.#blocks.find(sequence, i);
        if (block === NONE) block = this.#blocks.add(local, sequence, i, before, start + i);
        else first = this.#holdings.first(block, owner);
      } else {
        if ((this.#holdings.tiersOf(holding) & bit) !== 0) continue;
        block = this.#holdings.blockOf(holding);
        first = this.#holdings.first(block, owner);
      }
      const tiers = this.#holdings.tiersFrom(first);
      if (holding !== NONE) this.#holdings.addTiers(holding, bit);
      else this.#holdings.add(owner, external[2 * i]! | 0, external[2 * i + 1]! | 0, block, first, bit);
      this.#setTiers(block, owner, tiers, tiers | bit);
      changed++;
    }
    return changed;
  }

  /** Takes a holding off tiers it lies on. */
  #release(holding: number, tiers: number): void {
    const block = this.#holdings.blockOf(holding);
    const owner = this.#holdings.ownerOf(holding);
    const first = this.#holdings.first(block, owner);
    const before = this.#holdings.tiersFrom(first);
    const left = this.#holdings.takeTiers(holding, tiers, first);
    this.#setTiers(block, owner, before, this.#holdings.tiersFrom(left));
  }

  #setTiers(block: number, owner: number, before: number, after: number): void {
    if (before === after) return;
    this.#residencies += tierCount(after) - tierCount(before);
    this.#blocks.setTiers(block, owner, after);
  }

  /** Takes everything of an owner off tiers; whether there was anything. */
  #forget(owner: number, tiers: number): boolean {
    let changed = false;
    for (const holding of this.#holdings.ofOwner(owner)) {
      const held = this.#holdings.tiersOf(holding) & tiers;
      if (held === 0) continue;
      this.#release(holding, held);
      changed = true;
    }
    this.#holdings.trim(owner);
    return changed;
  }

  /** Grows every array that `added` new holdings of an owner can need, or refuses. */
  #makeRoom(owner: number, added: number): void {
    const held = this.#holdings.live;
    if (held + added <= this.#maxHoldings) {
      this.#holdings.reserve(owner, added);
      this.#blocks.reserve(added);
      return;
    }
    throw new PointsmanError(
      'PM_KV_INDEX_FULL',
      `the prefix index holds ${held} of at most ${this.#maxHoldings} engine hashes and has no room for ${added} more; raise the cap or announce fewer blocks`,
      { details: { held, added, cap: this.#maxHoldings } },
    );
  }
}
