// Session updates in order, bounded. For want of room the earliest matches are dropped, then the earliest stores: without them a lineage is
// shorter than it could be, which is safe. A removal that is lost would leave it too long, so all removals of an owner become one clear.
import type { HashPairs, U64 } from '../hashing/types.ts';
import type { OwnerSlot } from '../residency/types.ts';
import type { SessionKey } from './types.ts';

/** One thing learned. */
export type Update =
  | {
      readonly kind: 'matched';
      readonly session: SessionKey;
      readonly owner: OwnerSlot;
      readonly version: number;
      readonly hashes: HashPairs;
    }
  | {
      readonly kind: 'stored';
      readonly session: SessionKey;
      readonly owner: OwnerSlot;
      readonly parent: U64 | null;
      readonly hashes: HashPairs;
    }
  | { readonly kind: 'removed'; readonly owner: OwnerSlot; readonly hashes: HashPairs }
  | { readonly kind: 'cleared'; readonly owner: OwnerSlot }
  | { readonly kind: 'finished'; readonly session: SessionKey };

/** When there is no room, it is made down to this share, so that dropping does not come with every update. */
const KEPT_SHARE = 0.75;

/** A queue that loses what it may lose. */
export class UpdateQueue {
  readonly #maxUpdates: number;
  readonly #maxBlocks: number;
  #updates: Update[] = [];
  /** Updates before this one are done. */
  #head = 0;
  #blocks = 0;
  #droppedMatches = 0;
  #droppedStores = 0;
  #foldedRemovals = 0;

  constructor(maxUpdates: number, maxBlocks: number) {
    this.#maxUpdates = maxUpdates;
    this.#maxBlocks = maxBlocks;
  }

  /** Updates that wait. */
  get size(): number {
    return this.#updates.length - this.#head;
  }

  /** Blocks in them. */
  get blocks(): number {
    return this.#blocks;
  }

  get droppedMatches(): number {
    return this.#droppedMatches;
  }

  get droppedStores(): number {
    return this.#droppedStores;
  }

  get foldedRemovals(): number {
    return this.#foldedRemovals;
  }

  /** Whether there is no room and nothing left to drop. */
  get isOverfull(): boolean {
    return this.size > this.#maxUpdates || this.#blocks > this.#maxBlocks;
  }

  /** Adds an update behind all others, and makes room if there is none. */
  push(update: Update): void {
    this.#updates.push(update);
    this.#blocks += blocksOf(update);
    if (this.isOverfull) this.#droppedMatches += this.#drop('matched');
    if (this.isOverfull) this.#droppedStores += this.#drop('stored');
    if (this.isOverfull) this.#fold();
  }

  /** The earliest update; null when none waits. */
  first(): Update | null {
    return this.#updates[this.#head] ?? null;
  }

  /** Takes the earliest update off. */
  shift(): void {
    const update = this.#updates[this.#head];
    if (update === undefined) return;
    this.#head++;
    this.#blocks -= blocksOf(update);
    // Done updates are let go when they are the greater part, so that each is moved once on average.
    if (2 * this.#head >= this.#updates.length) {
      this.#updates = this.#updates.slice(this.#head);
      this.#head = 0;
    }
  }

  /** Drops the earliest updates of a kind until there is room again. Returns how many. */
  #drop(kind: 'matched' | 'stored'): number {
    let dropped = 0;
    let size = this.size;
    const isFull = () => size > KEPT_SHARE * this.#maxUpdates || this.#blocks > KEPT_SHARE * this.#maxBlocks;
    this.#updates = this.#updates.slice(this.#head).filter((update) => {
      if (update.kind !== kind || !isFull()) return true;
      dropped++;
      size--;
      this.#blocks -= blocksOf(update);
      return false;
    });
    this.#head = 0;
    return dropped;
  }

  /** Lets one clear of each owner stand for its removals. Nothing that waits makes a lineage longer, so the order does not matter. */
  #fold(): void {
    const owners = new Set<OwnerSlot>();
    const rest: Update[] = [];
    for (const update of this.#updates.slice(this.#head)) {
      if (update.kind === 'removed') this.#foldedRemovals++;
      if (update.kind === 'removed' || update.kind === 'cleared') owners.add(update.owner);
      else rest.push(update);
    }
    for (const owner of owners) rest.push({ kind: 'cleared', owner });
    this.#updates = rest;
    this.#head = 0;
    this.#blocks = 0;
  }
}

function blocksOf(update: Update): number {
  return 'hashes' in update ? update.hashes.length >> 1 : 0;
}
