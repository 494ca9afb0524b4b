// Memory of an owner's small pages: a row of integers per page and its tokens, in arrays that double, with a free list. Pages form
// a tree, as chains part within a router block too; rows hold it by parent, first child and siblings.
const NONE = -1;
const FIRST_ROWS = 64;

const PARENT = 0;
const CHILD = 1;
const NEXT = 2;
const PREVIOUS = 3;
const LO = 4;
const HI = 5;
/** Place within the router block, and tiers from bit 24 on. */
const PLACE = 6;
const STRIDE = 7;
const TIER_SHIFT = 24;
const PLACE_MASK = 2 ** TIER_SHIFT - 1;

/** Rows of pages. */
export class PageRows {
  /** Tokens kept of each page. */
  readonly width: number;
  #rows = new Int32Array(STRIDE * FIRST_ROWS);
  #tokens: Uint32Array;
  #used = 0;
  #free: number = NONE;
  #live = 0;

  constructor(width: number) {
    this.width = width;
    this.#tokens = new Uint32Array(width * FIRST_ROWS);
  }

  /** Rows in use. */
  get live(): number {
    return this.#live;
  }

  /** One more than the highest row ever used. */
  get used(): number {
    return this.#used;
  }

  get bytes(): number {
    return this.#rows.byteLength + this.#tokens.byteLength;
  }

  /** A new row behind `parent` (−1 = none), on no tier. */
  add(parent: number, place: number, lo: number, hi: number, tokens: Uint32Array, from: number): number {
    const row = this.#take();
    this.#tokens.set(tokens.subarray(from, from + this.width), row * this.width);
    const at = row * STRIDE;
    const rows = this.#rows;
    rows[at + PARENT] = parent;
    rows[at + CHILD] = NONE;
    rows[at + PREVIOUS] = NONE;
    rows[at + NEXT] = NONE;
    rows[at + LO] = lo;
    rows[at + HI] = hi;
    rows[at + PLACE] = place;
    if (parent !== NONE) {
      const sibling = rows[parent * STRIDE + CHILD]!;
      rows[at + NEXT] = sibling;
      if (sibling !== NONE) rows[sibling * STRIDE + PREVIOUS] = row;
      rows[parent * STRIDE + CHILD] = row;
    }
    return row;
  }

  /** Gives back a row without children. */
  delete(row: number): void {
    const rows = this.#rows;
    const at = row * STRIDE;
    const previous = rows[at + PREVIOUS]!;
    const next = rows[at + NEXT]!;
    if (previous !== NONE) rows[previous * STRIDE + NEXT] = next;
    else if (rows[at + PARENT] !== NONE) rows[rows[at + PARENT]! * STRIDE + CHILD] = next;
    if (next !== NONE) rows[next * STRIDE + PREVIOUS] = previous;
    rows[at + PLACE] = NONE;
    rows[at + NEXT] = this.#free;
    this.#free = row;
    this.#live -= 1;
  }

  isLive(row: number): boolean {
    return this.#rows[row * STRIDE + PLACE] !== NONE;
  }

  parent(row: number): number {
    return this.#rows[row * STRIDE + PARENT]!;
  }

  firstChild(row: number): number {
    return this.#rows[row * STRIDE + CHILD]!;
  }

  nextSibling(row: number): number {
    return this.#rows[row * STRIDE + NEXT]!;
  }

  lo(row: number): number {
    return this.#rows[row * STRIDE + LO]! >>> 0;
  }

  hi(row: number): number {
    return this.#rows[row * STRIDE + HI]! >>> 0;
  }

  /** 0 for the first page of its router block. */
  place(row: number): number {
    return this.#rows[row * STRIDE + PLACE]! & PLACE_MASK;
  }

  /** Tiers the page lies on, a bit each. */
  tiers(row: number): number {
    return this.#rows[row * STRIDE + PLACE]! >>> TIER_SHIFT;
  }

  setTiers(row: number, tiers: number): void {
    this.#rows[row * STRIDE + PLACE] = this.place(row) | (tiers << TIER_SHIFT);
  }

  /** Whether the row's tokens are those from an index on. */
  hasTokens(row: number, tokens: Uint32Array, from: number): boolean {
    for (let i = 0; i < this.width; i += 1) {
      if (this.#tokens[row * this.width + i] !== tokens[from + i]) return false;
    }
    return true;
  }

  /** Copies the first `count` tokens of a row. */
  copyTokens(row: number, count: number, out: Uint32Array, at: number): void {
    out.set(this.#tokens.subarray(row * this.width, row * this.width + count), at);
  }

  #take(): number {
    this.#live += 1;
    const free = this.#free;
    if (free !== NONE) {
      this.#free = this.#rows[free * STRIDE + NEXT]!;
      return free;
    }
    if ((this.#used + 1) * STRIDE > this.#rows.length) {
      const rows = new Int32Array(2 * this.#rows.length);
      rows.set(this.#rows);
      this.#rows = rows;
      const tokens = new Uint32Array(2 * this.#tokens.length);
      tokens.set(this.#tokens);
      this.#tokens = tokens;
    }
    this.#used += 1;
    return this.#used - 1;
  }
}
