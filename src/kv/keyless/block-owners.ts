// Which conversation a block of a prompt was last part of: an open-addressing table in one array, four words per block.

const WORDS = 4;
const BYTES = WORDS * 4;
const SMALLEST = 1024;

/**
 * Places to take over per block that comes. At a rebuild the table is half full at most, and it counts as full at three quarters: a quarter
 * of its places may be inserted meanwhile, and with half of that all places of the one before, which was no larger, are done.
 */
export const MOVED_PER_BLOCK = 8;

/** Two conversations had the block. */
const SHARED = 0x8000_0000;

/** Says whether somebody still has a block. */
export type IsLive = (owner: number, stamp: number) => boolean;

/**
 * Blocks by hash. A place is an index into the table, or behind its end into the one before, valid until the next `insert`, `move` or
 * `rebuild`.
 */
export class BlockOwners {
  readonly #most: number;
  /** Per place: hash low, hash high, conversation + 1 with the shared flag (0 = nothing is here), stamp. */
  #words: Uint32Array;
  #capacity: number;
  #filled = 0;
  /** The table before, which is emptied into this one bit by bit, as doing it at once would take long; null = it is empty. */
  #before: Uint32Array | null = null;
  /** Places of that one which are done: what is there does not count any more. */
  #done = 0;

  /** @param maxBytes of the table; while it grows or is cleaned there are two of them. */
  constructor(maxBytes: number) {
    this.#most = 2 ** Math.floor(Math.log2(Math.max(SMALLEST, maxBytes / BYTES)));
    this.#capacity = SMALLEST;
    this.#words = new Uint32Array(SMALLEST * WORDS);
  }

  get bytes(): number {
    return this.#words.byteLength + (this.#before?.byteLength ?? 0);
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
    const place = search(this.#words, low, high);
    if (place >= 0 || this.#before === null) return place;
    const earlier = search(this.#before, low, high);
    return earlier < this.#done ? -1 : this.#capacity + earlier;
  }

  ownerAt(place: number): number {
    return (this.#word(place, 2) & ~SHARED) - 1;
  }

  isSharedAt(place: number): boolean {
    return (this.#word(place, 2) & SHARED) !== 0;
  }

  stampAt(place: number): number {
    return this.#word(place, 3);
  }

  /** Notes who has a block that is here. */
  set(place: number, owner: number, shared: boolean, stamp: number): void {
    const isEarlier = place >= this.#capacity;
    const words = isEarlier ? this.#before! : this.#words;
    const at = (isEarlier ? place - this.#capacity : place) * WORDS;
    words[at + 2] = (owner + 1) | (shared ? SHARED : 0);
    words[at + 3] = stamp;
  }

  /** Adds a block that is not here; call only where `lacks` says that there is room. */
  insert(low: number, high: number, owner: number, stamp: number): void {
    this.#put(low, high, owner + 1, stamp);
  }

  /**
   * Begins a table without the blocks that nobody has any more, larger if those leave too little room. `move` fills it.
   * @param live blocks that somebody has.
   * @param more blocks that are to come; both together at most `mostBlocks`.
   */
  rebuild(isLive: IsLive, live: number, more: number): void {
    this.move(this.#capacity, isLive);
    this.#before = this.#words;
    this.#done = 0;
    while (this.#capacity < this.#most && (live + more) * 2 > this.#capacity) this.#capacity *= 2;
    this.#words = new Uint32Array(this.#capacity * WORDS);
    this.#filled = 0;
  }

  /**
   * Takes so many places of the table before over, if there is one. When {@link MOVED_PER_BLOCK} are with every block that may be inserted,
   * all are before the next rebuild.
   */
  move(places: number, isLive: IsLive): void {
    const before = this.#before;
    if (before === null) return;
    const end = Math.min(before.length, (this.#done + places) * WORDS);
    for (let at = this.#done * WORDS; at < end; at += WORDS) {
      const owned = before[at + 2]!;
      const stamp = before[at + 3]!;
      if (owned !== 0 && isLive((owned & ~SHARED) - 1, stamp))
        this.#put(before[at]!, before[at + 1]!, owned, stamp);
    }
    this.#done = end / WORDS;
    if (end === before.length) this.#before = null;
  }

  /** Forgets all. */
  clear(): void {
    this.#words.fill(0);
    this.#filled = 0;
    this.#before = null;
  }

  #word(place: number, word: number): number {
    if (place < this.#capacity) return this.#words[place * WORDS + word]!;
    return this.#before?.[(place - this.#capacity) * WORDS + word] ?? 0;
  }

  #put(low: number, high: number, owned: number, stamp: number): void {
    const words = this.#words;
    const mask = this.#capacity - 1;
    let place = firstPlace(low, high) & mask;
    while (words[place * WORDS + 2] !== 0) place = (place + 1) & mask;
    const at = place * WORDS;
    words[at] = low;
    words[at + 1] = high;
    words[at + 2] = owned;
    words[at + 3] = stamp;
    this.#filled += 1;
  }
}

function firstPlace(low: number, high: number): number {
  return low ^ (high >>> 7);
}

/** The place of a hash in a table; −1 = it is not there. */
function search(words: Uint32Array, low: number, high: number): number {
  const mask = words.length / WORDS - 1;
  for (let place = firstPlace(low, high) & mask; ; place = (place + 1) & mask) {
    const at = place * WORDS;
    if (words[at + 2] === 0) return -1;
    if (words[at] === low && words[at + 1] === high) return place;
  }
}
