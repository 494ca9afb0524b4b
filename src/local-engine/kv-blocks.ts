// The blocks that the sequences of an engine hold, by their names: one block may lie in several sequences, and is announced when the
// first has it and when the last has lost it. Columns only, no object per block.
import type { KvEvent } from '../events/index.ts';
import { U64Map } from '../kv/index.ts';
import type { Retentions } from '../simulator/index.ts';

/** Blocks in a row that became resident. */
export type StoredBlocks = Extract<KvEvent, { kind: 'stored' }>;

/** Which blocks are resident. */
export class KvBlocks {
  readonly #retentions: Retentions;
  readonly #rows: U64Map;
  readonly #names: Uint32Array;
  readonly #holders: Int32Array;
  readonly #free: Int32Array;
  #freeCount: number;
  #events: KvEvent[] = [];
  readonly #removed: number[] = [];

  /** @param capacity most blocks that all sequences hold together. */
  constructor(capacity: number, retentions: Retentions) {
    this.#retentions = retentions;
    this.#rows = new U64Map(capacity);
    this.#names = new Uint32Array(2 * capacity);
    this.#holders = new Int32Array(capacity);
    this.#free = Int32Array.from({ length: capacity }, (_, index) => capacity - 1 - index);
    this.#freeCount = capacity;
  }

  /** Blocks that are resident. */
  get resident(): number {
    return this.#rows.size;
  }

  /** Row of a block; −1 = it is not resident. */
  rowOf(lo: number, hi: number): number {
    return this.#rows.get(lo, hi);
  }

  /** In how many sequences a block lies. */
  holders(row: number): number {
    return this.#holders[row] ?? 0;
  }

  /** One more sequence holds a block. */
  hold(lo: number, hi: number): { readonly row: number; readonly isNew: boolean } {
    const known = this.#rows.get(lo, hi);
    if (known >= 0) {
      this.#holders[known]! += 1;
      return { row: known, isNew: false };
    }
    this.#freeCount -= 1;
    const row = this.#free[this.#freeCount]!;
    this.#rows.set(lo, hi, row);
    this.#names[2 * row] = lo;
    this.#names[2 * row + 1] = hi;
    this.#holders[row] = 1;
    return { row, isNew: true };
  }

  /** One sequence less holds a block. @param forRoom others took its place, against what was declared of it. */
  release(row: number, forRoom: boolean): void {
    this.#holders[row]! -= 1;
    if (this.#holders[row]! > 0) return;
    const lo = this.#names[2 * row]!;
    const hi = this.#names[2 * row + 1]!;
    this.#rows.delete(lo, hi);
    this.#retentions.forget(row, forRoom);
    this.#removed.push(lo, hi);
    this.#free[this.#freeCount] = row;
    this.#freeCount += 1;
  }

  /** Announces blocks that became resident. */
  stored(event: StoredBlocks): void {
    this.#flushRemoved();
    this.#events.push(event);
  }

  /** Announces what became of a hint after its request was admitted. */
  hintOutcome(event: Extract<KvEvent, { kind: 'hint-outcome' }>): void {
    this.#flushRemoved();
    this.#events.push(event);
  }

  /** Everything to announce since the last call, in order. */
  takeEvents(): readonly KvEvent[] {
    this.#flushRemoved();
    const events = this.#events;
    if (events.length > 0) this.#events = [];
    return events;
  }

  /** Names of all resident blocks, in no order. */
  names(): Uint32Array {
    const names = new Uint32Array(2 * this.#rows.size);
    let at = 0;
    this.#rows.forEach((lo, hi) => {
      names[at] = lo;
      names[at + 1] = hi;
      at += 2;
    });
    return names;
  }

  /** Between two stores there is no order among removed blocks. */
  #flushRemoved(): void {
    if (this.#removed.length === 0) return;
    this.#events.push({ kind: 'removed', external: Uint32Array.from(this.#removed), tier: 'device' });
    this.#removed.length = 0;
  }
}
