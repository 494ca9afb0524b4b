// Sets of things by a 64-bit key, each set in order of entry.
import { U64Map } from '../kv/index.ts';

/** A map from u64 to sets; an emptied set is gone. */
export class U64Groups<T> {
  readonly #slots = new U64Map();
  readonly #sets: (Set<T> | undefined)[] = [];
  readonly #free: number[] = [];

  /** The things of a key, oldest first; undefined when there are none. */
  get(lo: number, hi: number): ReadonlySet<T> | undefined {
    const slot = this.#slots.get(lo, hi);
    return slot < 0 ? undefined : this.#sets[slot];
  }

  /** Bytes of the tables; those of the sets are the things' own matter. */
  get bytes(): number {
    return this.#slots.bytes + 8 * (this.#sets.length + this.#free.length);
  }

  add(lo: number, hi: number, thing: T): void {
    let slot = this.#slots.get(lo, hi);
    if (slot < 0) {
      slot = this.#free.pop() ?? this.#sets.length;
      this.#sets[slot] = new Set();
      this.#slots.set(lo, hi, slot);
    }
    this.#sets[slot]!.add(thing);
  }

  delete(lo: number, hi: number, thing: T): void {
    const slot = this.#slots.get(lo, hi);
    const set = slot < 0 ? undefined : this.#sets[slot];
    if (set === undefined || !set.delete(thing) || set.size > 0) return;
    this.#slots.delete(lo, hi);
    this.#sets[slot] = undefined;
    this.#free.push(slot);
  }

  clear(): void {
    this.#slots.clear();
    this.#sets.length = 0;
    this.#free.length = 0;
  }
}
