// Who holds a block, on which tiers, as one small number per block. Equal sets are one set: interned, immutable and counted by
// the blocks that have it. Neighbouring blocks of a chain mostly share a set, so a walk sees "nothing changed" by one compare.
import { mixPair } from './pair-mix.ts';
import { RowArena } from './row-arena.ts';
import { SegmentedRows } from './segmented-rows.ts';
import { TIER_BITS } from './tier-bits.ts';
import { POOL_MASK, WordPool } from './word-pool.ts';

const OFFSET = 0;
const SIZE = 1;
const BLOCKS = 2;
const HASH = 3;
const NEXT = 4;
const STRIDE = 5;
const NONE = -1;

/** The set of a block nobody holds; never freed. */
export const NO_HOLDERS = 0;

/** Interned sets of (owner, tier mask). A holder is one word: owner << TIER_BITS | mask; a set lists them by ascending owner. */
export class HolderSets {
  readonly #arena = new RowArena(STRIDE, NEXT);
  readonly #rows = this.#arena.rows;
  readonly #pool = new WordPool();
  /** First set of each bucket + 1. Buckets are split one by one (linear hashing): of 2^level, the first `#split` are split. */
  readonly #buckets = new SegmentedRows(1);
  #level = 6;
  #split = 0;
  #draft = new Int32Array(16);
  // The last step taken: a store or remove makes the same step for most blocks of its event. It never goes stale: a set is made,
  // and the set stepped to is left for good, only by another step, which replaces it.
  #lastFrom = NONE;
  #lastHolder = 0;
  #lastTo = NONE;

  constructor() {
    this.#arena.take();
  }

  /** Distinct non-empty sets. */
  get count(): number {
    return this.#arena.live - 1;
  }

  /** Bytes of all arrays. */
  get bytes(): number {
    return this.#rows.bytes + this.#pool.bytes + this.#buckets.bytes + this.#draft.byteLength;
  }

  /** The words a set's holders stand in: `sizeOf(set)` of them from `offsetOf(set)` on. Valid until the next `move`. */
  wordsOf(set: number): Int32Array {
    return this.#pool.wordsOf(this.#rows.get(set, OFFSET));
  }

  /** Where a set's holders start in `wordsOf`. */
  offsetOf(set: number): number {
    return this.#rows.get(set, OFFSET) & POOL_MASK;
  }

  /** How many owners a set has. */
  sizeOf(set: number): number {
    return this.#rows.get(set, SIZE);
  }

  /**
   * Moves blocks from the set `from` to the set that differs in this owner's tiers only (mask 0: the owner leaves).
   * Returns the new set; `from` is freed when these were its last blocks.
   */
  move(from: number, owner: number, mask: number, blocks = 1): number {
    const holder = (owner << TIER_BITS) | mask;
    let to = this.#lastTo;
    if (from !== this.#lastFrom || holder !== this.#lastHolder) {
      to = this.#intern(this.#draftOf(from, owner, mask));
      this.#lastFrom = from;
      this.#lastHolder = holder;
      this.#lastTo = to;
    }
    if (to !== NO_HOLDERS) this.#count(to, blocks);
    if (from !== NO_HOLDERS && this.#count(from, -blocks) === 0) this.#drop(from);
    return to;
  }

  /** Writes the changed set to the draft and returns its size. */
  #draftOf(from: number, owner: number, mask: number): number {
    const size = this.sizeOf(from);
    if (this.#draft.length < size + 1) this.#draft = new Int32Array(2 * (size + 1));
    const draft = this.#draft;
    const words = this.wordsOf(from);
    const start = this.offsetOf(from);
    let n = 0;
    let i = 0;
    while (i < size && words[start + i]! >> TIER_BITS < owner) draft[n++] = words[start + i++]!;
    if (mask !== 0) draft[n++] = (owner << TIER_BITS) | mask;
    if (i < size && words[start + i]! >> TIER_BITS === owner) i++;
    while (i < size) draft[n++] = words[start + i++]!;
    return n;
  }

  /** The set that equals the draft, made when there is none (then with no blocks yet). */
  #intern(size: number): number {
    if (size === 0) return NO_HOLDERS;
    const draft = this.#draft;
    let hash = size;
    for (let i = 0; i < size; i++) hash = mixPair(draft[i]!, hash);
    let set = this.#buckets.get(this.#bucketOf(hash), 0) - 1;
    while (set !== NONE && !this.#equalsDraft(set, size, hash)) {
      set = this.#rows.get(set, NEXT);
    }
    if (set !== NONE) return set;
    const offset = this.#pool.take(size);
    const words = this.#pool.wordsOf(offset);
    for (let i = 0; i < size; i++) words[(offset & POOL_MASK) + i] = draft[i]!;
    set = this.#arena.take();
    this.#rows.set(set, OFFSET, offset);
    this.#rows.set(set, SIZE, size);
    this.#rows.set(set, BLOCKS, 0);
    this.#rows.set(set, HASH, hash);
    if (this.count > 2 ** this.#level + this.#split) this.#splitBucket();
    this.#link(set);
    return set;
  }

  #equalsDraft(set: number, size: number, hash: number): boolean {
    if (this.#rows.get(set, HASH) !== hash || this.sizeOf(set) !== size) return false;
    const start = this.offsetOf(set);
    const words = this.wordsOf(set);
    for (let i = 0; i < size; i++) {
      if (words[start + i] !== this.#draft[i]) return false;
    }
    return true;
  }

  #bucketOf(hash: number): number {
    const bucket = hash & (2 ** this.#level - 1);
    return bucket < this.#split ? hash & (2 ** (this.#level + 1) - 1) : bucket;
  }

  #link(set: number): void {
    const bucket = this.#bucketOf(this.#rows.get(set, HASH));
    this.#rows.set(set, NEXT, this.#buckets.get(bucket, 0) - 1);
    this.#buckets.set(bucket, 0, set + 1);
  }

  /** Makes one more bucket: the sets of another are told apart by one more bit. */
  #splitBucket(): void {
    const old = this.#split;
    this.#buckets.reserve(2 ** this.#level + old + 1);
    let set = this.#buckets.get(old, 0) - 1;
    this.#buckets.set(old, 0, 0);
    this.#split++;
    while (set !== NONE) {
      const next = this.#rows.get(set, NEXT);
      this.#link(set);
      set = next;
    }
    if (this.#split === 2 ** this.#level) {
      this.#level++;
      this.#split = 0;
    }
  }

  #count(set: number, step: number): number {
    const blocks = this.#rows.get(set, BLOCKS) + step;
    this.#rows.set(set, BLOCKS, blocks);
    return blocks;
  }

  #drop(set: number): void {
    const bucket = this.#bucketOf(this.#rows.get(set, HASH));
    const next = this.#rows.get(set, NEXT);
    let before = this.#buckets.get(bucket, 0) - 1;
    if (before === set) {
      this.#buckets.set(bucket, 0, next + 1);
    } else {
      while (this.#rows.get(before, NEXT) !== set) before = this.#rows.get(before, NEXT);
      this.#rows.set(before, NEXT, next);
    }
    this.#pool.give(this.#rows.get(set, OFFSET), this.sizeOf(set));
    this.#arena.give(set);
  }
}
