// The block cache of one worker's engine: as many blocks as fit, the least recently used go first, of one prompt its tail before its
// head. So whatever is resident has its whole prefix beside it.

/** What admitting a prompt changed. */
export interface Admission {
  /** Leading blocks that were there. */
  readonly hits: number;
  /** Ids that went to make room, in this order. */
  readonly evicted: readonly number[];
}

/** Neighbour of the first and of the last in the order of use. */
const END = 0;

/** A least-recently-used cache of block ids; an id stands for its block and everything before it. */
export class BlockCache {
  readonly #capacity: number;
  /** Row by id; row 0 is both ends of the order. */
  readonly #rows = new Map<number, number>();
  readonly #ids: number[] = [-1];
  readonly #older: number[] = [END];
  readonly #newer: number[] = [END];
  readonly #free: number[] = [];

  /** @param capacity blocks, from 1. */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** Ids that are resident, in the order they came. */
  get residents(): IterableIterator<number> {
    return this.#rows.keys();
  }

  /**
   * Takes a prompt in as one that is computed and finished at once: its resident prefix is used, the rest is put behind it.
   * @returns null for a prompt longer than the cache, which changes nothing.
   */
  admit(prompt: Uint32Array): Admission | null {
    if (prompt.length > this.#capacity) return null;
    let hits = 0;
    // Not to be evicted for its own tail.
    for (; hits < prompt.length; hits += 1) {
      const row = this.#rows.get(prompt[hits]!);
      if (row === undefined) break;
      this.#unlink(row);
    }
    const evicted: number[] = [];
    for (let over = this.#rows.size + prompt.length - hits - this.#capacity; over > 0; over -= 1) {
      evicted.push(this.#evictOldest());
    }
    for (let at = hits; at < prompt.length; at += 1) this.#rows.set(prompt[at]!, this.#rowFor(prompt[at]!));
    // The head is used last, so that the tail is the older.
    for (let at = prompt.length - 1; at >= 0; at -= 1) this.#linkNewest(this.#rows.get(prompt[at]!)!);
    return { hits, evicted };
  }

  #rowFor(id: number): number {
    const row = this.#free.pop() ?? this.#ids.length;
    this.#ids[row] = id;
    return row;
  }

  #evictOldest(): number {
    const row = this.#newer[END]!;
    const id = this.#ids[row]!;
    this.#unlink(row);
    this.#rows.delete(id);
    this.#free.push(row);
    return id;
  }

  #unlink(row: number): void {
    const older = this.#older[row]!;
    const newer = this.#newer[row]!;
    this.#newer[older] = newer;
    this.#older[newer] = older;
  }

  #linkNewest(row: number): void {
    const newest = this.#older[END]!;
    this.#newer[newest] = row;
    this.#older[row] = newest;
    this.#newer[row] = END;
    this.#older[END] = row;
  }
}
