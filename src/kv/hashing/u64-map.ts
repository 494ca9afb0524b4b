// An open-addressed map from 64-bit keys (two u32 halves) to small non-negative integers, in typed arrays only: no object,
// bigint or string per entry. Linear probing, load at most 0.6, deletion by backward shift, so there are no tombstones and a
// table never degrades with churn.
import { PointsmanError } from '../../plugin/index.ts';

/** Visits one entry; `lo` and `hi` are unsigned. */
export type U64MapVisitor = (lo: number, hi: number, value: number) => void;

const MIN_CAPACITY = 16;
/** Slots of the largest table: 1.5 GiB of arrays, about 80 million entries. */
const MAX_CAPACITY = 2 ** 27;
/** Load limit as a fraction of integers, so that the threshold is exact on every engine. */
const LOAD_NUMERATOR = 3;
const LOAD_DENOMINATOR = 5;

/**
 * Map of u64 to int32 ≥ 0; −1 stands for absent. Halves may be given signed or unsigned: only their 32 bits count.
 * Growth doubles the table in one go, which for a million entries takes some tens of milliseconds.
 */
export class U64Map {
  /** Slots looked at since construction; tests read it to see that probe sequences stay short. */
  probes = 0;
  readonly #initialCapacity: number;
  #keys: Int32Array;
  #values: Int32Array;
  #mask: number;
  /** 32 − log2(capacity): a slot index is the top bits of the mixed key. */
  #shift: number;
  #limit: number;
  #size = 0;

  /**
   * @param expectedEntries entries to make room for at once; default 0 gives the smallest table.
   * @throws PM_KV_TABLE_FULL when that many entries do not fit the largest table.
   */
  constructor(expectedEntries = 0) {
    let capacity = MIN_CAPACITY;
    while (loadLimit(capacity) < expectedEntries) capacity = doubled(capacity);
    this.#initialCapacity = capacity;
    this.#keys = new Int32Array(2 * capacity);
    this.#values = new Int32Array(capacity).fill(-1);
    this.#mask = capacity - 1;
    this.#shift = 32 - Math.log2(capacity);
    this.#limit = loadLimit(capacity);
  }

  /** Number of entries. */
  get size(): number {
    return this.#size;
  }

  /** Number of slots. */
  get capacity(): number {
    return this.#mask + 1;
  }

  /** Bytes of the arrays held: 12 per slot. */
  get bytes(): number {
    return this.#keys.byteLength + this.#values.byteLength;
  }

  /** The value of a key, −1 when absent. */
  get(lo: number, hi: number): number {
    return this.#values[this.#find(lo | 0, hi | 0)]!;
  }

  /** Whether the key has a value. */
  has(lo: number, hi: number): boolean {
    return this.get(lo, hi) >= 0;
  }

  /**
   * Gives a key a value and returns the value it had, −1 when it is new.
   * @param value integer in [0, 2³¹ − 1].
   * @throws PM_KV_ARGUMENT for any other value; PM_KV_TABLE_FULL when the largest table is full. Neither changes the map.
   */
  set(lo: number, hi: number, value: number): number {
    if ((value | 0) !== value || value < 0) {
      throw new PointsmanError(
        'PM_KV_ARGUMENT',
        `a map value is an integer from 0 to 2147483647, not ${value}`,
        { details: { value } },
      );
    }
    let slot = this.#find(lo | 0, hi | 0);
    const before = this.#values[slot]!;
    if (before < 0) {
      if (this.#size >= this.#limit) {
        this.#resize(doubled(this.capacity));
        slot = this.#find(lo | 0, hi | 0);
      }
      this.#keys[2 * slot] = lo;
      this.#keys[2 * slot + 1] = hi;
      this.#size += 1;
    }
    this.#values[slot] = value;
    return before;
  }

  /** Removes a key and returns the value it had, −1 when it was absent. */
  delete(lo: number, hi: number): number {
    const keys = this.#keys;
    const values = this.#values;
    const mask = this.#mask;
    let hole = this.#find(lo | 0, hi | 0);
    const before = values[hole]!;
    if (before < 0) return -1;
    // Moves back every later entry of the run whose home is at or before the hole, so that no probe meets a gap.
    for (let slot = (hole + 1) & mask; values[slot]! >= 0; slot = (slot + 1) & mask) {
      const home = this.#home(keys[2 * slot]!, keys[2 * slot + 1]!);
      if (((slot - home) & mask) < ((slot - hole) & mask)) continue;
      keys[2 * hole] = keys[2 * slot]!;
      keys[2 * hole + 1] = keys[2 * slot + 1]!;
      values[hole] = values[slot]!;
      hole = slot;
    }
    values[hole] = -1;
    this.#size -= 1;
    return before;
  }

  /** Removes every entry and gives back the memory of a grown table. */
  clear(): void {
    this.#size = 0;
    if (this.capacity === this.#initialCapacity) this.#values.fill(-1);
    else this.#resize(this.#initialCapacity);
  }

  /** Visits all entries in no particular order; the visitor must not change the map. */
  forEach(visit: U64MapVisitor): void {
    const keys = this.#keys;
    const values = this.#values;
    for (let slot = 0; slot < values.length; slot += 1) {
      const value = values[slot]!;
      if (value >= 0) visit(keys[2 * slot]! >>> 0, keys[2 * slot + 1]! >>> 0, value);
    }
  }

  /** The slot that holds the key, or the free slot where it would go. */
  #find(lo: number, hi: number): number {
    const keys = this.#keys;
    const values = this.#values;
    const mask = this.#mask;
    const home = this.#home(lo, hi);
    let slot = home;
    while (values[slot]! >= 0 && (keys[2 * slot] !== lo || keys[2 * slot + 1] !== hi))
      slot = (slot + 1) & mask;
    this.probes += ((slot - home) & mask) + 1;
    return slot;
  }

  /** Real hashes are uniform already; two multiplications keep small, sequential or shifted test ids from clustering. */
  #home(lo: number, hi: number): number {
    let mixed = Math.imul(lo ^ Math.imul(hi ^ (hi >>> 16), 0x85ebca6b), 0x9e3779b1);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0xc2b2ae35);
    return mixed >>> this.#shift;
  }

  /** Moves the `#size` entries (none after a clear) to fresh arrays. */
  #resize(capacity: number): void {
    const oldKeys = this.#keys;
    const oldValues = this.#values;
    const keep = this.#size > 0;
    this.#keys = new Int32Array(2 * capacity);
    this.#values = new Int32Array(capacity).fill(-1);
    this.#mask = capacity - 1;
    this.#shift = 32 - Math.log2(capacity);
    this.#limit = loadLimit(capacity);
    if (!keep) return;
    const probes = this.probes;
    for (let old = 0; old < oldValues.length; old += 1) {
      if (oldValues[old]! < 0) continue;
      const lo = oldKeys[2 * old]!;
      const hi = oldKeys[2 * old + 1]!;
      const slot = this.#find(lo, hi);
      this.#keys[2 * slot] = lo;
      this.#keys[2 * slot + 1] = hi;
      this.#values[slot] = oldValues[old]!;
    }
    this.probes = probes;
  }
}

function loadLimit(capacity: number): number {
  return Math.floor((capacity * LOAD_NUMERATOR) / LOAD_DENOMINATOR);
}

function doubled(capacity: number): number {
  if (capacity < MAX_CAPACITY) return 2 * capacity;
  const limit = loadLimit(MAX_CAPACITY);
  throw new PointsmanError('PM_KV_TABLE_FULL', `a hash table holds at most ${limit} entries and is full`, {
    details: { limit },
  });
}
