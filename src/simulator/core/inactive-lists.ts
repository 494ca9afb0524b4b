// The order in which unused KV blocks are given up: one least-recently-released list for ordinary blocks, and one per retain
// priority behind it. Doubly linked through columns; every operation on a block is constant time.

const NONE = -1;
const PRIORITIES = 101;
/** List 0 holds ordinary blocks, list 1 + p those retained with priority p. */
const LISTS = 1 + PRIORITIES;

/** Unused blocks in eviction order. A block is in at most one list; what it is retained for stays with it while it is in use. */
export class InactiveLists {
  #count = 0;
  #previous: Int32Array;
  #next: Int32Array;
  /** List the block is in, or would enter. */
  #list: Uint8Array;
  #isIn: Uint8Array;
  readonly #heads = new Int32Array(LISTS).fill(NONE);
  readonly #tails = new Int32Array(LISTS).fill(NONE);
  /** End of retention by block; only retained blocks. Insertion order, so iteration is reproducible. */
  readonly #retainedUntil = new Map<number, number>();
  #nextExpiry = Number.POSITIVE_INFINITY;

  constructor(rows: number) {
    this.#previous = new Int32Array(rows);
    this.#next = new Int32Array(rows);
    this.#list = new Uint8Array(rows);
    this.#isIn = new Uint8Array(rows);
  }

  /** Blocks in all lists. */
  get count(): number {
    return this.#count;
  }

  /** Puts a block at the young end of its list. */
  append(block: number): void {
    const list = this.#list[block]!;
    const tail = this.#tails[list]!;
    this.#previous[block] = tail;
    this.#next[block] = NONE;
    if (tail === NONE) this.#heads[list] = block;
    else this.#next[tail] = block;
    this.#tails[list] = block;
    this.#isIn[block] = 1;
    this.#count += 1;
  }

  /** Takes a block out, because it is used again. */
  remove(block: number): void {
    const list = this.#list[block]!;
    const previous = this.#previous[block]!;
    const next = this.#next[block]!;
    if (previous === NONE) this.#heads[list] = next;
    else this.#next[previous] = next;
    if (next === NONE) this.#tails[list] = previous;
    else this.#previous[next] = previous;
    this.#isIn[block] = 0;
    this.#count -= 1;
  }

  /** Takes out the block to evict: the oldest ordinary one, else the oldest of the lowest priority; −1 when all are in use. */
  takeOldest(): number {
    if (this.#count === 0) return NONE;
    let list = 0;
    while (this.#heads[list]! === NONE) list += 1;
    const block = this.#heads[list]!;
    this.remove(block);
    if (list > 0) {
      this.#list[block] = 0;
      this.#retainedUntil.delete(block);
    }
    return block;
  }

  /** Moves a block to the young end of a priority's list, now if it is unused, else when it is released. */
  retain(block: number, priority: number, expiresAt: number, unused: boolean): void {
    if (unused) this.remove(block);
    this.#list[block] = 1 + priority;
    if (unused) this.append(block);
    this.#retainedUntil.set(block, expiresAt);
    this.#nextExpiry = Math.min(this.#nextExpiry, expiresAt);
  }

  /** Makes blocks ordinary whose retention ended at or before `now`; unused ones count as released just now. */
  expire(now: number): void {
    if (now < this.#nextExpiry) return;
    let next = Number.POSITIVE_INFINITY;
    for (const [block, until] of this.#retainedUntil) {
      if (until > now) {
        next = Math.min(next, until);
        continue;
      }
      const unused = this.#isIn[block] === 1;
      if (unused) this.remove(block);
      this.#list[block] = 0;
      if (unused) this.append(block);
      this.#retainedUntil.delete(block);
    }
    this.#nextExpiry = next;
  }

  /** Makes room for `rows` blocks. */
  grow(rows: number): void {
    this.#previous = widened(this.#previous, new Int32Array(rows));
    this.#next = widened(this.#next, new Int32Array(rows));
    this.#list = widened(this.#list, new Uint8Array(rows));
    this.#isIn = widened(this.#isIn, new Uint8Array(rows));
  }
}

function widened<T extends Int32Array | Uint8Array>(from: T, to: T): T {
  to.set(from);
  return to;
}
