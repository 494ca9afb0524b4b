// The KV blocks of one rank, modelled on vLLM's physical pool: a copy is private (one owner, no known contents) or cached
// under a hash, and one hash may have several copies. Cached copies that nobody holds wait in least-recently-released order
// for reuse or eviction; retained ones wait in lists of their own, which are emptied last. Columns only, no object per block.
import { type HashPairs, U64Map } from '../../kv/index.ts';
import { InactiveLists } from './inactive-lists.ts';
import { type LateRetain, type RetainDeclaration, Retentions } from './retentions.ts';

const NONE = -1;
const GROWTH_START = 1024;

/** Why a block goes: to make room for others, or because a hint asked for it, on the device alone (`demotion`) or altogether. */
export type EvictionCause = 'room' | 'demotion' | 'hint';

/** Told when the last copy of a hash goes; `copy` is its number, whose contents stand until the listener returns. */
export type EvictionListener = (lo: number, hi: number, copy: number, cause: EvictionCause) => void;

/** What became of one block that was to be retained. */
export type RetainResult = 'retained' | 'missing' | 'no_room';

/** What became of one block that was to be evicted; `in_use` also when somebody else retains it. */
export type EvictResult = 'evicted' | 'missing' | 'in_use';

/** Block pool with prefix reuse. Block tables are Int32Arrays of copy numbers, in prompt order. */
export class KvPool {
  /** Blocks in all; null = unlimited. */
  readonly capacity: number | null;
  readonly #evicted: EvictionListener;
  /** First copy of each cached hash. */
  readonly #byHash = new U64Map();
  readonly #inactive: InactiveLists;
  readonly #retentions = new Retentions();
  readonly #retainedLimit: number;
  #hashes: Uint32Array;
  #cached: Uint8Array;
  #refs: Int32Array;
  /** Next copy of the same hash. */
  #twin: Int32Array;
  /** Whether somebody else than the one it was allocated for has used the copy. */
  #reused: Uint8Array;
  /** Stack of unused copy numbers below `#made`. */
  #unused: Int32Array;
  #unusedCount = 0;
  #made = 0;

  /** @param retainedLimit most copies that are retained at a time. */
  constructor(
    capacity: number | null,
    evicted: EvictionListener,
    retainedLimit: number = Number.POSITIVE_INFINITY,
  ) {
    const rows = capacity === null ? GROWTH_START : Math.min(capacity, GROWTH_START);
    this.capacity = capacity;
    this.#evicted = evicted;
    this.#retainedLimit = retainedLimit;
    this.#inactive = new InactiveLists(rows);
    this.#hashes = new Uint32Array(2 * rows);
    this.#cached = new Uint8Array(rows);
    this.#refs = new Int32Array(rows);
    this.#twin = new Int32Array(rows);
    this.#unused = new Int32Array(rows);
    this.#reused = new Uint8Array(rows);
  }

  /** Copies that somebody holds. */
  get active(): number {
    return this.#made - this.#unusedCount - this.#inactive.count;
  }

  /** Cached copies that nobody holds. */
  get inactive(): number {
    return this.#inactive.count;
  }

  /** Distinct hashes with at least one copy. */
  get residentHashes(): number {
    return this.#byHash.size;
  }

  /** How many blocks could be allocated now, evictions included. */
  get available(): number {
    return this.capacity === null ? Number.MAX_SAFE_INTEGER : this.capacity - this.active;
  }

  isResident(lo: number, hi: number): boolean {
    return this.#byHash.get(lo, hi) >= 0;
  }

  /** Resident hashes contiguous from index `from`, below `to`; returns the exclusive end. */
  residentUntil(hashes: HashPairs, from: number, to: number): number {
    let end = from;
    while (end < to && this.#byHash.get(hashes[2 * end]!, hashes[2 * end + 1]!) >= 0) end += 1;
    return end;
  }

  /** How many of the first copies of hashes [from, to) nobody holds; all must be resident. */
  inactiveAmong(hashes: HashPairs, from: number, to: number): number {
    let count = 0;
    for (let index = from; index < to; index += 1) {
      const copy = this.#byHash.get(hashes[2 * index]!, hashes[2 * index + 1]!);
      if (this.#refs[copy] === 0) count += 1;
    }
    return count;
  }

  /** Takes hold of hashes [from, to), all resident, and writes their copies to the same places of `table`. */
  acquire(hashes: HashPairs, from: number, to: number, table: Int32Array): void {
    for (let index = from; index < to; index += 1) {
      const copy = this.#byHash.get(hashes[2 * index]!, hashes[2 * index + 1]!);
      if (this.#refs[copy]! === 0) this.#inactive.remove(copy);
      this.#refs[copy]! += 1;
      this.#reused[copy] = 1;
      table[index] = copy;
    }
  }

  /** Writes private copies to `table` [from, to), evicting as needed; returns the exclusive end of what could be given. */
  allocate(table: Int32Array, from: number, to: number): number {
    let end = from;
    while (end < to) {
      const copy = this.#fresh();
      if (copy === NONE) break;
      this.#refs[copy] = 1;
      this.#reused[copy] = 0;
      table[end] = copy;
      end += 1;
    }
    return end;
  }

  /** Makes a held private copy findable under its hash; true when it is the first copy of it. */
  cache(copy: number, lo: number, hi: number): boolean {
    const first = this.#byHash.get(lo, hi);
    this.#hashes[2 * copy] = lo;
    this.#hashes[2 * copy + 1] = hi;
    this.#cached[copy] = 1;
    if (first < 0) {
      this.#twin[copy] = NONE;
      this.#byHash.set(lo, hi, copy);
      return true;
    }
    this.#twin[copy] = this.#twin[first]!;
    this.#twin[first] = copy;
    return false;
  }

  /** Lets go of `table` [from, to), suffix first, so that leaves are evicted before their parents. */
  release(table: Int32Array, from: number, to: number): void {
    for (let index = to - 1; index >= from; index -= 1) {
      const copy = table[index]!;
      this.#refs[copy]! -= 1;
      if (this.#refs[copy]! > 0) continue;
      if (this.#cached[copy] === 1) this.#inactive.append(copy);
      else this.#discard(copy);
    }
  }

  /** Marks a resident block as used just now, if nobody holds it; false when it is not resident. */
  touch(lo: number, hi: number): boolean {
    const copy = this.#byHash.get(lo, hi);
    if (copy < 0) return false;
    if (this.#refs[copy] === 0) {
      this.#inactive.remove(copy);
      this.#inactive.append(copy);
    }
    return true;
  }

  /** Copies that are retained now. */
  get retained(): number {
    return this.#retentions.blocks;
  }

  /** Keeps a resident block from eviction until all others are gone, as long as the declaration holds. */
  retain(lo: number, hi: number, declaration: RetainDeclaration): RetainResult {
    const copy = this.#byHash.get(lo, hi);
    if (copy < 0) return 'missing';
    if (!this.#retentions.has(copy) && this.#retentions.blocks >= this.#retainedLimit) return 'no_room';
    const added = this.#retentions.add(copy, declaration);
    this.#inactive.place(copy, this.#retentions.priorityOf(copy), added);
    return added ? 'retained' : 'no_room';
  }

  /** Takes back what `declarer` declared of a block; false when that is nothing. */
  unretain(lo: number, hi: number, declarer: string): boolean {
    const copy = this.#byHash.get(lo, hi);
    if (copy < 0 || !this.#retentions.release(copy, declarer)) return false;
    this.#inactive.place(copy, this.#retentions.priorityOf(copy), false);
    return true;
  }

  /** Ends the declarations whose time is over; blocks that have no other count as released just now. */
  expireRetained(now: number): void {
    this.#retentions.expire(now, this.#lapsed);
  }

  /** Whether there is anything to tell of retain actions. */
  get hasLateRetains(): boolean {
    return this.#retentions.hasLate;
  }

  /** What became of retain actions since the last call. */
  takeLateRetains(): readonly LateRetain[] {
    return this.#retentions.takeLate();
  }

  /** Gives up every copy of a hash, unless somebody holds it or another than `declarer` retains it. */
  evict(lo: number, hi: number, declarer: string | null, cause: Exclude<EvictionCause, 'room'>): EvictResult {
    const first = this.#byHash.get(lo, hi);
    if (first < 0) return 'missing';
    for (let copy = first; copy !== NONE; copy = this.#twin[copy]!) {
      if (!this.#mayGo(copy, declarer)) return 'in_use';
    }
    for (let copy = this.#byHash.get(lo, hi); copy >= 0; copy = this.#byHash.get(lo, hi))
      this.#giveUp(copy, cause);
    return 'evicted';
  }

  /** Gives up one cached copy that nobody but the one it was allocated for has used; false when it stays. */
  evictOwn(copy: number, declarer: string | null, cause: Exclude<EvictionCause, 'room'>): boolean {
    if (this.#cached[copy] === 0 || this.#reused[copy] === 1 || !this.#mayGo(copy, declarer)) return false;
    this.#giveUp(copy, cause);
    return true;
  }

  /** Every resident hash once, in no order. */
  residentBlocks(): HashPairs {
    const hashes = new Uint32Array(2 * this.#byHash.size);
    let at = 0;
    this.#byHash.forEach((lo, hi) => {
      hashes[at] = lo;
      hashes[at + 1] = hi;
      at += 2;
    });
    return hashes;
  }

  #fresh(): number {
    if (this.#unusedCount > 0) {
      this.#unusedCount -= 1;
      return this.#unused[this.#unusedCount]!;
    }
    if (this.capacity === null || this.#made < this.capacity) {
      if (this.#made === this.#refs.length) this.#grow();
      this.#made += 1;
      return this.#made - 1;
    }
    const oldest = this.#inactive.takeOldest();
    if (oldest !== NONE) this.#forget(oldest, 'room');
    return oldest;
  }

  readonly #lapsed = (copy: number): void =>
    this.#inactive.place(copy, this.#retentions.priorityOf(copy), false);

  #mayGo(copy: number, declarer: string | null): boolean {
    return this.#refs[copy] === 0 && !this.#retentions.isRetainedByOthers(copy, declarer);
  }

  #giveUp(copy: number, cause: EvictionCause): void {
    this.#inactive.remove(copy);
    this.#inactive.place(copy, -1, false);
    this.#forget(copy, cause);
    this.#discard(copy);
  }

  /** Takes a cached copy off its hash; tells the listener when no twin is left. */
  #forget(copy: number, cause: EvictionCause): void {
    this.#retentions.forget(copy, cause === 'room');
    const lo = this.#hashes[2 * copy]!;
    const hi = this.#hashes[2 * copy + 1]!;
    const twin = this.#twin[copy]!;
    const first = this.#byHash.get(lo, hi);
    this.#cached[copy] = 0;
    if (first === copy) {
      if (twin !== NONE) this.#byHash.set(lo, hi, twin);
      else {
        this.#byHash.delete(lo, hi);
        this.#evicted(lo, hi, copy, cause);
      }
      return;
    }
    let before = first;
    while (this.#twin[before] !== copy) before = this.#twin[before]!;
    this.#twin[before] = twin;
  }

  #discard(copy: number): void {
    this.#unused[this.#unusedCount] = copy;
    this.#unusedCount += 1;
  }

  #grow(): void {
    const doubled = 2 * this.#refs.length;
    const rows = this.capacity === null ? doubled : Math.min(doubled, this.capacity);
    this.#hashes = widened(this.#hashes, new Uint32Array(2 * rows));
    this.#cached = widened(this.#cached, new Uint8Array(rows));
    this.#refs = widened(this.#refs, new Int32Array(rows));
    this.#twin = widened(this.#twin, new Int32Array(rows));
    this.#unused = widened(this.#unused, new Int32Array(rows));
    this.#reused = widened(this.#reused, new Uint8Array(rows));
    this.#inactive.grow(rows);
  }
}

function widened<T extends Int32Array | Uint32Array | Uint8Array>(from: T, to: T): T {
  to.set(from);
  return to;
}
