// Conversations that are known by their prompts, in columns, in order of last use.

const NONE = -1;

/** A bounded table of conversations. A number may be given out again; what was noted for the earlier one is told by `born`. */
export class Conversations {
  readonly #most: number;
  /** Stamp of its first request. */
  readonly born: Uint32Array;
  /** Stamp of its last request. */
  readonly last: Uint32Array;
  /** Blocks of its last chain. */
  readonly length: Uint32Array;
  /** Blocks that are noted as its own. */
  readonly blocks: Uint32Array;
  readonly ids: (string | null)[];
  readonly #seenAt: Float64Array;
  readonly #older: Int32Array;
  readonly #newer: Int32Array;
  #oldest = NONE;
  #newest = NONE;
  #count = 0;
  #used = 0;
  readonly #free: number[] = [];

  /** @param most 1 to 65,536. */
  constructor(most: number) {
    this.#most = most;
    this.born = new Uint32Array(most);
    this.last = new Uint32Array(most);
    this.length = new Uint32Array(most);
    this.blocks = new Uint32Array(most);
    this.ids = [];
    this.#seenAt = new Float64Array(most);
    this.#older = new Int32Array(most);
    this.#newer = new Int32Array(most);
  }

  get count(): number {
    return this.#count;
  }

  get isFull(): boolean {
    return this.#count === this.#most;
  }

  /** The one that is unused for longest; −1 = there is none. */
  get oldest(): number {
    return this.#oldest;
  }

  /** When it was used last, ms of the clock. */
  seenAt(conversation: number): number {
    return this.#seenAt[conversation]!;
  }

  /** A new one, used last. Only while not full. */
  open(id: string, stamp: number, now: number): number {
    const conversation = this.#free.pop() ?? this.#used++;
    this.born[conversation] = stamp;
    this.last[conversation] = stamp;
    this.length[conversation] = 0;
    this.blocks[conversation] = 0;
    this.ids[conversation] = id;
    this.#count += 1;
    this.#append(conversation, now);
    return conversation;
  }

  /** It is the one used last from here on. */
  use(conversation: number, now: number): void {
    this.#unlink(conversation);
    this.#append(conversation, now);
  }

  /** Forgets one; its blocks are nobody's from here on. */
  close(conversation: number): void {
    this.#unlink(conversation);
    this.ids[conversation] = null;
    // No stamp is as large before the next one opens under the number.
    this.born[conversation] = 0xffffffff;
    this.#free.push(conversation);
    this.#count -= 1;
  }

  #append(conversation: number, now: number): void {
    this.#seenAt[conversation] = now;
    this.#older[conversation] = this.#newest;
    this.#newer[conversation] = NONE;
    if (this.#newest === NONE) this.#oldest = conversation;
    else this.#newer[this.#newest] = conversation;
    this.#newest = conversation;
  }

  #unlink(conversation: number): void {
    const older = this.#older[conversation]!;
    const newer = this.#newer[conversation]!;
    if (older === NONE) this.#oldest = newer;
    else this.#newer[older] = newer;
    if (newer === NONE) this.#newest = older;
    else this.#older[newer] = older;
  }
}
