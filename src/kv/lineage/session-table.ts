// Sessions by key, in the order of their last use.
import { RowArena } from '../residency/row-arena.ts';
import { NONE } from './lineage-forest.ts';
import type { SessionKey } from './types.ts';

/** Words of a row. */
const FIRST_PAIR = 0;
const EARLIER = 1;
const LATER = 2;
const STRIDE = 3;

/** Bytes of a session beside its key: its row, time, references, and an entry of a Map, as V8 lays them out. */
const SESSION_BYTES = 88;
/** Bytes of a key at most beside its characters, and of a character: keys are mostly Latin-1, but need not be. */
const KEY_BYTES = 24;
const CHARACTER_BYTES = 2;

/** Rows of sessions. */
export class SessionTable {
  readonly #arena = new RowArena(STRIDE, LATER);
  readonly #rows = this.#arena.rows;
  readonly #rowOf = new Map<SessionKey, number>();
  readonly #keys: SessionKey[] = [];
  /** When each session was last used, ms. */
  readonly #usedAt: number[] = [];
  #oldest = NONE;
  #newest = NONE;
  #keyBytes = 0;

  /** Sessions. */
  get size(): number {
    return this.#rowOf.size;
  }

  /** Bytes of what is in use, those on the heap by estimate. */
  get usedBytes(): number {
    return this.size * SESSION_BYTES + this.#keyBytes;
  }

  /** Bytes of all arrays, and of what is on the heap by estimate. */
  get bytes(): number {
    return this.#rows.bytes + this.usedBytes - this.size * 4 * STRIDE;
  }

  /** Row of a session; NONE when it is not known. */
  find(key: SessionKey): number {
    return this.#rowOf.get(key) ?? NONE;
  }

  /** The session unused for longest. */
  get oldest(): number {
    return this.#oldest;
  }

  /** The next one used later. */
  later(row: number): number {
    return this.#rows.get(row, LATER);
  }

  keyOf(row: number): SessionKey {
    return this.#keys[row]!;
  }

  usedAt(row: number): number {
    return this.#usedAt[row]!;
  }

  /** First of its pairs with an owner. */
  firstPair(row: number): number {
    return this.#rows.get(row, FIRST_PAIR);
  }

  setFirstPair(row: number, pair: number): void {
    this.#rows.set(row, FIRST_PAIR, pair);
  }

  /** Adds a session that is not known, as the one used last. */
  add(key: SessionKey, now: number): number {
    const row = this.#arena.take();
    this.#rowOf.set(key, row);
    this.#keys[row] = key;
    this.#keyBytes += KEY_BYTES + CHARACTER_BYTES * key.length;
    this.#rows.set(row, FIRST_PAIR, NONE);
    this.#append(row, now);
    return row;
  }

  /** Makes a session the one used last. */
  touch(row: number, now: number): void {
    this.#unlink(row);
    this.#append(row, now);
  }

  /** Forgets a session. */
  delete(row: number): void {
    const key = this.#keys[row]!;
    this.#unlink(row);
    this.#rowOf.delete(key);
    this.#keyBytes -= KEY_BYTES + CHARACTER_BYTES * key.length;
    this.#keys[row] = '' as SessionKey;
    this.#arena.give(row);
  }

  #append(row: number, now: number): void {
    this.#usedAt[row] = now;
    this.#rows.set(row, EARLIER, this.#newest);
    this.#rows.set(row, LATER, NONE);
    if (this.#newest === NONE) this.#oldest = row;
    else this.#rows.set(this.#newest, LATER, row);
    this.#newest = row;
  }

  #unlink(row: number): void {
    const earlier = this.#rows.get(row, EARLIER);
    const later = this.#rows.get(row, LATER);
    if (earlier === NONE) this.#oldest = later;
    else this.#rows.set(earlier, LATER, later);
    if (later === NONE) this.#newest = earlier;
    else this.#rows.set(later, EARLIER, earlier);
  }
}
