// Keeps an index within its caps: what has no room is let in once enough else was evicted, in steps that do not grow with the index.
import type { U64 } from '../hashing/types.ts';
import { Eviction } from './eviction.ts';
import type { Extents } from './extents.ts';
import { IndexRoom, type IndexSize } from './index-room.ts';
import type { Residencies } from './residencies.ts';
import { LARGEST_SIZE, runSizeFor } from './run-arena.ts';

const NONE = -1;
/** Names that are evicted at once, and a share of all in a small index. */
const EVICT_NAMES = 256;
const EVICT_SHARE = 16;
/** Steps of evicting after which an event that still has no room is refused. */
const MOST_STEPS = 16;
/** Rows that must be free beyond those of an event: its runs are filled in part. */
const SPARE_ROWS = 64;

/** What an index's caps are and who is told of evictions. */
export interface IndexCapOptions {
  readonly maxHoldings: number;
  readonly maxBytes: number;
  readonly evicted?: ((owner: number, external: U64) => void) | undefined;
  readonly onEvicted?: ((names: number) => void) | undefined;
  /** Bytes of arrays beside those of extents and residencies. */
  readonly otherBytes: () => number;
}

/** Room for one event at a time. */
export class IndexCap {
  readonly #extents: Extents;
  readonly #residencies: Residencies;
  readonly #room: IndexRoom;
  readonly #eviction: Eviction;
  readonly #otherBytes: () => number;
  readonly #onEvicted: ((names: number) => void) | undefined;
  readonly #size: IndexSize;
  #owner = 0;
  #blocks = 0;
  #steps = 0;
  #evicted = 0;
  #evictedBefore = 0;

  constructor(extents: Extents, residencies: Residencies, options: IndexCapOptions) {
    this.#extents = extents;
    this.#residencies = residencies;
    this.#room = new IndexRoom(options.maxHoldings, options.maxBytes);
    this.#eviction = new Eviction(extents, residencies, options.evicted);
    this.#otherBytes = options.otherBytes;
    this.#onEvicted = options.onEvicted;
    this.#size = new CappedSize(extents, residencies, this);
  }

  /** The owner of the event. */
  get owner(): number {
    return this.#owner;
  }

  /** Bytes of all arrays of the index. */
  get bytes(): number {
    return this.#extents.bytes + this.#residencies.bytes + this.#eviction.bytes + this.#otherBytes();
  }

  /** Names evicted so far. */
  get evicted(): number {
    return this.#evicted;
  }

  /** Whether names were evicted since `begin`. */
  get hasEvicted(): boolean {
    return this.#evicted > this.#evictedBefore;
  }

  /** An owner's event of so many blocks comes. */
  begin(owner: number, blocks: number): void {
    this.#owner = owner;
    this.#blocks = blocks;
    this.#steps = 0;
    this.#evictedBefore = this.#evicted;
  }

  /** Whether there is no room for so many more names of the event's owner. */
  lacks(names: number): boolean {
    return this.#room.lacks(this.#size, names, this.hasEvicted);
  }

  /**
   * Takes a piece of what is cleared but still in place away, or when nothing is, evicts a step's worth.
   * @param parent block that the event's names are about to be chained behind, −1 for none: it stays.
   * @returns whether that may have been enough; false when the event must be refused.
   */
  makeRoom(names: number, parent: number): boolean {
    const { cleared, columns } = this.#residencies;
    if (!cleared.isSwept) {
      cleared.sweep();
      return true;
    }
    if (this.#steps++ === MOST_STEPS || this.#room.isTooLarge(this.#blocks)) return false;
    const least = Math.min(EVICT_NAMES, Math.floor(columns.live / EVICT_SHARE));
    const kept = parent === NONE ? NONE : this.#extents.arena.runOf(parent);
    const evicted = this.#eviction.evict(Math.max(names, least), kept);
    this.#evicted += evicted;
    if (evicted > 0) this.#onEvicted?.(evicted);
    return true;
  }

  /** @throws PM_KV_INDEX_FULL */
  refuse(names: number): never {
    this.#room.refuse(this.#size, names);
  }

  /** Lets arrays grow or not while the event is applied. */
  letGrow(): void {
    const { grows } = this.#room;
    const { names } = this.#residencies.columns;
    this.#extents.arena.grows = grows;
    names.grows = grows || names.freeRows < SPARE_ROWS;
    const isFree = names.grows || this.#residencies.usesRouterHashes(this.#owner);
    this.#extents.largest = isFree ? LARGEST_SIZE : Math.max(0, names.largestFree());
  }
}

/** What the caps are held against. A class, so that every index has the same shape of it. */
class CappedSize implements IndexSize {
  readonly #extents: Extents;
  readonly #residencies: Residencies;
  readonly #cap: IndexCap;

  constructor(extents: Extents, residencies: Residencies, cap: IndexCap) {
    this.#extents = extents;
    this.#residencies = residencies;
    this.#cap = cap;
  }

  get names(): number {
    return this.#residencies.columns.live;
  }

  get runs(): number {
    return this.#extents.arena.room;
  }

  bytes(): number {
    return this.#cap.bytes;
  }

  growth(names: number): number {
    const runs = Math.min(names, 2 + (names >> 6));
    const size = runSizeFor(names);
    return this.#extents.growth(runs, size) + this.#residencies.growth(this.#cap.owner, names, runs, size);
  }

  fits(names: number): boolean {
    const { arena } = this.#extents;
    const { columns } = this.#residencies;
    const rows = names + SPARE_ROWS;
    if (arena.freeRows < rows || columns.room < 2 + (names >> 2)) return false;
    return this.#residencies.usesRouterHashes(this.#cap.owner) || columns.names.freeRows >= rows;
  }
}
