// The KV blocks of one rank, modelled on vLLM's physical pool: a copy is private (one owner, no known contents) or cached
// under a hash, and one hash may have several copies. Cached copies that nobody holds wait in least-recently-released order
// for reuse or eviction; retained ones wait in lists of their own, which are emptied last. Columns only, no object per block.
import { type HashPairs, U64Map } from '../../kv/index.ts';
import { InactiveLists } from './inactive-lists.ts';

const NONE = -1;
const GROWTH_START = 1024;

/** Told when the last copy of a hash goes; `copy` is its number, whose contents stand until the listener returns. */
export type EvictionListener = (lo: number, hi: number, copy: number) => void;

/** Block pool with prefix reuse. Block tables are Int32Arrays of copy numbers, in prompt order. */
export class KvPool {
  /** Blocks in all; null = unlimited. */
  readonly capacity: number | null;
  readonly #evicted: EvictionListener;
  /** First copy of each cached hash. */
  readonly #byHash = new U64Map();
  readonly #inactive: InactiveLists;
  #hashes: Uint32Array;
  #cached: Uint8Array;
  #refs: Int32Array;
  /** Next copy of the same hash. */
  #twin: Int32Array;
  /** Stack of unused copy numbers below `#made`. */
  #unused: Int32Array;
  #unusedCount = 0;
  #made = 0;

  constructor(capacity: number | null, evicted: EvictionListener) {
    const rows = capacity === null ? GROWTH_START : Math.min(capacity, GROWTH_START);
    this.capacity = capacity;
    this.#evicted = evicted;
    this.#inactive = new InactiveLists(rows);
    this.#hashes = new Uint32Array(2 * rows);
    this.#cached = new Uint8Array(rows);
    this.#refs = new Int32Array(rows);
    this.#twin = new Int32Array(rows);
    this.#unused = new Int32Array(rows);
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

  /**
   * Keeps a resident block from eviction until all others are gone: lower priority goes first. False when not resident.
   * @param priority 0 to 100.
   */
  retain(lo: number, hi: number, priority: number, expiresAt: number): boolean {
    const copy = this.#byHash.get(lo, hi);
    if (copy < 0) return false;
    this.#inactive.retain(copy, priority, expiresAt, this.#refs[copy] === 0);
    return true;
  }

  /** Makes retained blocks ordinary again whose time is over. */
  expireRetained(now: number): void {
    this.#inactive.expire(now);
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
    if (oldest !== NONE) this.#forget(oldest);
    return oldest;
  }

  /** Takes a cached copy off its hash; tells the listener when no twin is left. */
  #forget(copy: number): void {
    const lo = this.#hashes[2 * copy]!;
    const hi = this.#hashes[2 * copy + 1]!;
    const twin = this.#twin[copy]!;
    const first = this.#byHash.get(lo, hi);
    this.#cached[copy] = 0;
    if (first === copy) {
      if (twin !== NONE) this.#byHash.set(lo, hi, twin);
      else {
        this.#byHash.delete(lo, hi);
        this.#evicted(lo, hi, copy);
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
    this.#inactive.grow(rows);
  }
}

function widened<T extends Int32Array | Uint32Array | Uint8Array>(from: T, to: T): T {
  to.set(from);
  return to;
}
