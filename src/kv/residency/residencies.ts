// Who holds which block under which name: the changes that stores, removes and clears are made of.
import type { HashPairs, U64 } from '../hashing/types.ts';
import { ClearedBlocks } from './cleared-blocks.ts';
import type { Departures } from './departures.ts';
import { BLOCK } from './extent-layout.ts';
import type { Extents } from './extents.ts';
import { NameColumns } from './name-columns.ts';
import { NAME_SHIFT, NameFinder, OFFSET_MASK } from './name-finder.ts';
import { NO_OWNER, OwnerState } from './owner-state.ts';
import type { ByteTally } from './row-table.ts';
import { StoreCopies } from './store-copies.ts';
import { TIER_BITS, tierCount } from './tier-bits.ts';

const NONE = -1;
/** Number and bit of the device tier. */
const DEVICE = 0;
const ON_DEVICE = 1;

/** Holdings of all owners. */
export class Residencies {
  readonly columns = new NameColumns();
  readonly cleared: ClearedBlocks;
  readonly names: NameFinder;
  readonly #copies = new StoreCopies();
  readonly #extents: Extents;
  readonly #countsStores: (owner: number) => boolean;
  readonly #states = new Map<number, OwnerState>();
  /** The owner asked for last: events come in series of one. */
  #last = NO_OWNER;
  readonly #tables: ByteTally = { bytes: 0 };
  #probes = 0;
  #count = 0;
  /** Told of blocks that leave devices; null = nobody follows them. */
  departures: Departures | null = null;

  /** @param sweepPlaces places that one `sweep` looks at. */
  constructor(extents: Extents, countsStores: (owner: number) => boolean, sweepPlaces: number) {
    this.#extents = extents;
    this.#countsStores = countsStores;
    this.cleared = new ClearedBlocks(extents, this.columns, this.#copies, sweepPlaces, (state) =>
      this.#trim(state),
    );
    this.names = new NameFinder(extents, this.columns, this.cleared);
  }

  /** (owner, tier, block) triples; cleared ones are not counted. */
  get count(): number {
    return this.#count;
  }

  /** Bytes of all arrays. */
  get bytes(): number {
    return this.columns.bytes + this.#copies.bytes + this.#tables.bytes;
  }

  /** Owners that have something, or had and are not forgotten. */
  get owners(): number {
    return this.#states.size;
  }

  /** Whether all engine hashes of an owner have been the router's. */
  usesRouterHashes(owner: number): boolean {
    const state = this.#states.get(owner);
    return state !== undefined && state.names === null && state.routerNames !== null;
  }

  /** Bytes that so many new names of an owner, in so many extents of a size, add at most. */
  growth(owner: number, names: number, extents: number, size: number): number {
    const tables = this.#states.get(owner)?.growth(names) ?? 64 * (names + 4);
    return this.columns.growth(extents, size) + tables;
  }

  /** Table slots looked at so far. */
  get probes(): number {
    let probes = this.#probes + this.columns.probes;
    for (const state of this.#states.values()) probes += state.probes;
    return probes;
  }

  /** An owner's state; undefined when it has none. */
  of(owner: number): OwnerState | undefined {
    if (this.#last.owner === owner) return this.#last;
    const state = this.#states.get(owner);
    if (state !== undefined) this.#last = state;
    return state;
  }

  /** An owner's state, made when it has none. */
  toFill(owner: number): OwnerState {
    let state = this.of(owner);
    if (state === undefined) {
      state = new OwnerState(owner, this.columns.names.rows, this.#extents.arena.rows, this.#tables);
      this.#states.set(owner, state);
    }
    return state;
  }

  /** The block of a name. */
  blockOf(name: number): number {
    return this.#extents.arena.baseOf(this.columns.extentOf(name >>> NAME_SHIFT)) + (name & OFFSET_MASK);
  }

  /** The tiers a name lies on. */
  tiersOf(name: number): number {
    return this.columns.tiersOf(name >>> NAME_SHIFT, name & OFFSET_MASK);
  }

  /** The tiers a column's name lies on, those cleared since not. */
  validTiersOf(column: number, offset: number): number {
    const state = this.#states.get(this.columns.ownerOf(column));
    if (state === undefined) return 0;
    return this.columns.tiersOf(column, offset) & ~state.staleTiers(this.columns.clearsOf(column));
  }

  /** The tiers an owner holds a block on. */
  tiersOfBlock(block: number, state: OwnerState): number {
    const extent = this.#extents.arena.runOf(block);
    if (!state.isSwept) this.cleared.sweepPair(extent, state);
    const offset = block - this.#extents.arena.baseOf(extent);
    return this.columns.tiersFrom(this.columns.first(extent, state.owner), offset);
  }

  /** Puts a name on one more tier; whether it was not there yet. A second copy is counted when stores are. */
  addTier(name: number, tier: number, state: OwnerState): boolean {
    const column = name >>> NAME_SHIFT;
    const offset = name & OFFSET_MASK;
    const tiers = this.columns.tiersOf(column, offset);
    if (((tiers >> tier) & 1) !== 0) {
      if (this.#countsStores(state.owner)) this.#copies.add(name, tier);
      return false;
    }
    const extent = this.columns.extentOf(column);
    const before = this.columns.tiersFrom(this.columns.first(extent, state.owner), offset);
    this.columns.setTiers(column, offset, tiers | (1 << tier));
    this.#setTiers(this.#extents.arena.baseOf(extent) + offset, state, before, before | (1 << tier));
    return true;
  }

  /** A new name of a block: the engine hash in signed halves, or the router's own (not `named`). */
  add(block: number, tier: number, named: boolean, lo: number, hi: number, state: OwnerState): void {
    const { columns } = this;
    const { arena } = this.#extents;
    const extent = arena.runOf(block);
    const offset = block - arena.baseOf(extent);
    let column = NONE;
    let before = 0;
    // The newest name of a block stands before its others: only a column before all of those will do.
    for (let at = columns.first(extent, state.owner); at !== NONE; at = columns.next(at)) {
      const tiers = columns.tiersOf(at, offset);
      before |= tiers;
      if (column === NONE && before === 0 && columns.isNamed(at) === named) column = at;
    }
    if (column === NONE) column = columns.open(extent, arena.rowsOf(extent), named, state);
    columns.add(column, offset, 1 << tier, block, lo, hi, state);
    state.latest = (column << NAME_SHIFT) + offset;
    this.#setTiers(block, state, before, before | (1 << tier));
  }

  /**
   * New names of a run of blocks of one extent, all of them the engine's own or all the router's: the hashes from `index` on of
   * a list.
   * @param mixes mixed hashes of the list.
   */
  addRun(
    block: number,
    run: number,
    tier: number,
    named: boolean,
    external: HashPairs,
    mixes: Int32Array,
    index: number,
    state: OwnerState,
  ): void {
    const { columns } = this;
    const { arena } = this.#extents;
    const extent = arena.runOf(block);
    const offset = block - arena.baseOf(extent);
    let column = columns.first(extent, state.owner);
    if (column === NONE) {
      column = columns.open(extent, arena.rowsOf(extent), named, state);
    } else if (
      columns.next(column) !== NONE ||
      columns.isNamed(column) !== named ||
      !columns.areFree(column, offset, run)
    ) {
      for (let i = 0; i < run; i++) {
        const at = 2 * (index + i);
        this.add(block + i, tier, named, external[at]! | 0, external[at + 1]! | 0, state);
      }
      return;
    }
    columns.addRun(column, offset, run, 1 << tier, block, external, mixes, index, state);
    state.latest = (column << NAME_SHIFT) + offset + run - 1;
    state.held[tier]! += run;
    this.#count += run;
    this.#extents.setRun(block, run, state.owner, 1 << tier);
  }

  /**
   * Takes names `name`, `name` + 1 … of one column off a tier when all are on it alone, once, and no other column has their blocks. No
   * cleared block may be in place.
   * @param mixes mixed hashes of a list of engine hashes, theirs from `index` on.
   * @returns whether that was so; if not, none is taken off.
   */
  releaseRun(
    name: number,
    run: number,
    tier: number,
    mixes: Int32Array,
    index: number,
    state: OwnerState,
  ): boolean {
    const { columns } = this;
    const column = name >>> NAME_SHIFT;
    const offset = name & OFFSET_MASK;
    const extent = columns.extentOf(column);
    if (this.#copies.count > 0 || !columns.areOn(column, offset, run, 1 << tier)) return false;
    if (columns.first(extent, state.owner) !== column || columns.next(column) !== NONE) return false;
    const block = this.#extents.arena.baseOf(extent) + offset;
    if (tier === DEVICE) this.departures?.add(state.owner, block, run);
    if (columns.deleteRun(column, offset, run, block, mixes, index, state)) columns.close(column, state);
    state.held[tier]! -= run;
    this.#count -= run;
    this.#extents.setRun(block, run, state.owner, 0);
    return true;
  }

  /** Takes a name, or one copy of it, off a tier it lies on. */
  release(name: number, tier: number, state: OwnerState): void {
    if (this.#countsStores(state.owner)) {
      if (this.#copies.take(name, tier)) return;
    } else this.#copies.forget(name, 1 << tier);
    const { columns } = this;
    const column = name >>> NAME_SHIFT;
    const offset = name & OFFSET_MASK;
    const extent = columns.extentOf(column);
    const first = columns.first(extent, state.owner);
    const block = this.#extents.arena.baseOf(extent) + offset;
    const others =
      first === column && columns.next(column) === NONE ? 0 : this.#others(first, column, offset);
    const before = columns.tiersOf(column, offset) | others;
    const tiers = columns.tiersOf(column, offset) & ~(1 << tier);
    const after = tiers | others;
    columns.setTiers(column, offset, tiers);
    if (tiers === 0 && columns.delete(column, offset, block, state)) columns.close(column, state);
    this.#setTiers(block, state, before, after);
  }

  /** Lets an owner's blocks on some tiers be gone at once; whether there were any. `sweep` takes them away. */
  clear(state: OwnerState, tiers: number, all: boolean): boolean {
    const { isSwept, probes } = state;
    const cleared = state.clear(tiers, all);
    if (cleared === 0) return false;
    this.#count -= cleared;
    this.#probes += probes - state.probes;
    this.cleared.add(state, isSwept);
    return true;
  }

  /**
   * Takes all names of an owner off the blocks of an extent.
   * @param told called with each engine hash.
   * @returns how many names there were.
   */
  evict(extent: number, state: OwnerState, told?: (owner: number, external: U64) => void): number {
    const { columns } = this;
    const { arena } = this.#extents;
    const first = columns.first(extent, state.owner);
    const base = arena.baseOf(extent);
    const blocks = this.#extents.endOf(extent) - base;
    const before = columns.live;
    let run = 0;
    for (let offset = 0; offset <= blocks; offset++) {
      const held = offset < blocks ? this.#evictBlock(base + offset, offset, first, state, told) : 0;
      if (held !== 0) {
        run++;
      } else if (run > 0) {
        // The extent is given back with the last of them; its rows stay as they are until taken again.
        this.#extents.setRun(base + offset - run, run, state.owner, 0);
        run = 0;
      }
    }
    for (let at = first; at !== NONE; ) {
      const next = columns.next(at);
      columns.close(at, state);
      at = next;
    }
    return before - columns.live;
  }

  /** Takes an owner's names off a block, its set of holders left alone; the tiers it was held on. */
  #evictBlock(
    block: number,
    offset: number,
    first: number,
    state: OwnerState,
    told?: (owner: number, external: U64) => void,
  ): number {
    const { columns } = this;
    let held = 0;
    for (let at = first; at !== NONE; at = columns.next(at)) {
      const tiers = columns.tiersOf(at, offset);
      if (tiers === 0) continue;
      told?.(
        state.owner,
        columns.isNamed(at) ? columns.hashAt(at, offset) : this.#extents.hashOf(block, BLOCK.SEQUENCE),
      );
      this.#copies.forget((at << NAME_SHIFT) + offset, tiers);
      columns.delete(at, offset, block, state);
      state.evicted += tierCount(tiers);
      held |= tiers;
    }
    if ((held & ON_DEVICE) !== 0) this.departures?.add(state.owner, block, 1);
    for (let tier = 0; tier < TIER_BITS; tier++) state.held[tier]! -= (held >> tier) & 1;
    this.#count -= tierCount(held);
    return held;
  }

  /** Forgets an owner that holds nothing and whose engine has nothing to remove. */
  #trim(state: OwnerState): void {
    if (state.live > 0 || state.evicted > 0) return;
    this.#probes += state.probes;
    state.dropTables();
    this.#states.delete(state.owner);
    if (this.#last === state) this.#last = NO_OWNER;
  }

  /** The tiers an owner's other columns have a block on. */
  #others(first: number, column: number, offset: number): number {
    let tiers = 0;
    for (let at = first; at !== NONE; at = this.columns.next(at)) {
      if (at !== column) tiers |= this.columns.tiersOf(at, offset);
    }
    return tiers;
  }

  #setTiers(block: number, state: OwnerState, before: number, after: number): void {
    const changed = before ^ after;
    if (changed === 0) return;
    if ((changed & before & ON_DEVICE) !== 0) this.departures?.add(state.owner, block, 1);
    for (let tier = 0; tier < TIER_BITS; tier++) {
      if (((changed >> tier) & 1) === 0) continue;
      const step = ((after >> tier) & 1) === 0 ? -1 : 1;
      state.held[tier]! += step;
      this.#count += step;
    }
    this.#extents.setTiers(block, state.owner, after);
  }
}
