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
    this.#list[block] = 0;
    return block;
  }

  /**
   * Says with which priority a block waits for eviction, now if it is unused, else once it is released. One that changes its list, or
   * is renewed, goes to the young end.
   * @param priority 0 to 100; −1 = an ordinary block.
   */
  place(block: number, priority: number, renewed: boolean): void {
    const list = 1 + priority;
    if (this.#list[block] === list && !renewed) return;
    const unused = this.#isIn[block] === 1;
    if (unused) this.remove(block);
    this.#list[block] = list;
    if (unused) this.append(block);
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
