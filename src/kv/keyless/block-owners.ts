// Which conversation a block of a prompt was last part of: an open-addressing table in one array, four words per block.

const WORDS = 4;
const BYTES = WORDS * 4;
const SMALLEST = 1024;

/** Two conversations had the block. */
const SHARED = 0x8000_0000;

/** Blocks by hash. A place is an index into the table, valid until the next `insert` or `rebuild`. */
export class BlockOwners {
  readonly #most: number;
  /** Per place: hash low, hash high, conversation + 1 with the shared flag (0 = nothing is here), stamp. */
  #words: Uint32Array;
  #capacity: number;
  #filled = 0;

  /** @param maxBytes of the table; while it grows or is cleaned there are two of them. */
  constructor(maxBytes: number) {
    this.#most = 2 ** Math.floor(Math.log2(Math.max(SMALLEST, maxBytes / BYTES)));
    this.#capacity = SMALLEST;
    this.#words = new Uint32Array(SMALLEST * WORDS);
  }

  get bytes(): number {
    return this.#words.byteLength;
  }

  /** Blocks that fit, whoever has them. */
  get mostBlocks(): number {
    return this.#most / 2;
  }

  /** Whether so many more blocks need a rebuild first. */
  lacks(blocks: number): boolean {
    return (this.#filled + blocks) * 4 > this.#capacity * 3;
  }

  /** The place of a hash; −1 = it is not here. */
  find(low: number, high: number): number {
    const words = this.#words;
    const mask = this.#capacity - 1;
    for (let place = (low ^ (high >>> 7)) & mask; ; place = (place + 1) & mask) {
      const at = place * WORDS;
      if (words[at + 2] === 0) return -1;
      if (words[at] === low && words[at + 1] === high) return place;
    }
  }

  ownerAt(place: number): number {
    return (this.#words[place * WORDS + 2]! & ~SHARED) - 1;
  }

  isSharedAt(place: number): boolean {
    return (this.#words[place * WORDS + 2]! & SHARED) !== 0;
  }

  stampAt(place: number): number {
    return this.#words[place * WORDS + 3]!;
  }

  /** Notes who has a block that is here. */
  set(place: number, owner: number, shared: boolean, stamp: number): void {
    const at = place * WORDS;
    this.#words[at + 2] = (owner + 1) | (shared ? SHARED : 0);
    this.#words[at + 3] = stamp;
  }

  /** Adds a block that is not here; call only where `lacks` says that there is room. */
  insert(low: number, high: number, owner: number, stamp: number): void {
    this.#put(low, high, owner + 1, stamp);
  }

  /**
   * Drops blocks that nobody has any more, and grows if that leaves too little room.
   * @param live blocks that somebody has.
   * @param more blocks that are to come; both together at most `mostBlocks`.
   */
  rebuild(isLive: (owner: number, stamp: number) => boolean, live: number, more: number): void {
    while (this.#capacity < this.#most && (live + more) * 2 > this.#capacity) this.#capacity *= 2;
    const before = this.#words;
    this.#words = new Uint32Array(this.#capacity * WORDS);
    this.#filled = 0;
    for (let at = 0; at < before.length; at += WORDS) {
      const owned = before[at + 2]!;
      const stamp = before[at + 3]!;
      if (owned !== 0 && isLive((owned & ~SHARED) - 1, stamp))
        this.#put(before[at]!, before[at + 1]!, owned, stamp);
    }
  }

  /** Forgets all. */
  clear(): void {
    this.#words.fill(0);
    this.#filled = 0;
  }

  #put(low: number, high: number, owned: number, stamp: number): void {
    const words = this.#words;
    const mask = this.#capacity - 1;
    let place = (low ^ (high >>> 7)) & mask;
    while (words[place * WORDS + 2] !== 0) place = (place + 1) & mask;
    const at = place * WORDS;
    words[at] = low;
    words[at + 1] = high;
    words[at + 2] = owned;
    words[at + 3] = stamp;
    this.#filled += 1;
  }
}
