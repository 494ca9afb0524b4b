// The blocks that one rank is believed to hold, without an engine that says so: a table from sequence hash to row, and a list of the
// rows that nobody uses, longest unused first. All in typed arrays that double; a row that is freed is the next one given out.
import { U64Map } from '../hashing/u64-map.ts';

const NONE = -1;
const FIRST_ROWS = 64;
/** Words of a row: hash (low, high), neighbours in the list, number of uses, whether it was computed. */
const STRIDE = 6;
const LOW = 0;
const HIGH = 1;
const EARLIER = 2;
const LATER = 3;
const USES = 4;
const STATE = 5;

/** What a row stands for. */
const EXPECTED = 0;
const COMPUTED = 1;
/** A block of generated tokens: it takes room, but nobody can ask for it. */
const NAMELESS = 2;

/** Blocks of one rank. */
export class BelievedBlocks {
  readonly #rows = new U64Map();
  #words = new Int32Array(FIRST_ROWS * STRIDE);
  /** When each unused row was last used, ms. */
  #usedAt = new Float64Array(FIRST_ROWS);
  #given = 0;
  #free = NONE;
  #oldest = NONE;
  #newest = NONE;
  #size = 0;

  /** Rows in use, nameless ones among them. */
  get size(): number {
    return this.#size;
  }

  /** Bytes of all arrays. */
  get bytes(): number {
    return this.#rows.bytes + this.#words.byteLength + this.#usedAt.byteLength;
  }

  /** The row of a block, −1 when it is not believed to be there. */
  find(low: number, high: number): number {
    return this.#rows.get(low, high);
  }

  /** Adds a block that is used once. */
  add(low: number, high: number): number {
    const row = this.#take(EXPECTED);
    this.#words[row * STRIDE + LOW] = low;
    this.#words[row * STRIDE + HIGH] = high;
    this.#rows.set(low, high, row);
    return row;
  }

  /** Adds a block of generated tokens, unused since `now`. */
  addNameless(now: number): void {
    const row = this.#take(NAMELESS);
    this.#words[row * STRIDE + USES] = 0;
    this.#append(row, now);
  }

  /** Uses a row once more. */
  use(row: number): void {
    const at = row * STRIDE;
    if (this.#words[at + USES] === 0) this.#unlink(row);
    this.#words[at + USES]!++;
  }

  /** Ends one use; the last one puts it at the end of the list. Answers whether it was the last. */
  unuse(row: number, now: number): boolean {
    const at = row * STRIDE;
    this.#words[at + USES]!--;
    if (this.#words[at + USES] !== 0) return false;
    this.#append(row, now);
    return true;
  }

  /** The block was computed: whoever finds it from here on finds it in the cache. */
  computed(row: number): void {
    if (this.#words[row * STRIDE + STATE] === EXPECTED) this.#words[row * STRIDE + STATE] = COMPUTED;
  }

  /** Whether it was. */
  isComputed(row: number): boolean {
    return this.#words[row * STRIDE + STATE] === COMPUTED;
  }

  /** When an unused row was last used, ms; positive infinity while it is in use. */
  usedAt(row: number): number {
    return this.#words[row * STRIDE + USES] === 0 ? this.#usedAt[row]! : Number.POSITIVE_INFINITY;
  }

  /** The row that is unused for longest, −1 when all are in use. */
  get oldest(): number {
    return this.#oldest;
  }

  /** Whether a row's block has a hash. */
  isNamed(row: number): boolean {
    return this.#words[row * STRIDE + STATE] !== NAMELESS;
  }

  /** Writes the hash of a row to `out[2 * index]` and behind it. */
  hashTo(row: number, out: Uint32Array, index: number): void {
    out[2 * index] = this.#words[row * STRIDE + LOW]!;
    out[2 * index + 1] = this.#words[row * STRIDE + HIGH]!;
  }

  /** Forgets an unused row. */
  drop(row: number): void {
    const at = row * STRIDE;
    this.#unlink(row);
    if (this.#words[at + STATE] !== NAMELESS)
      this.#rows.delete(this.#words[at + LOW]!, this.#words[at + HIGH]!);
    this.#words[at + LATER] = this.#free;
    this.#free = row;
    this.#size--;
  }

  #take(state: number): number {
    let row = this.#free;
    if (row === NONE) {
      row = this.#given++;
      if (row === this.#usedAt.length) this.#double();
    } else {
      this.#free = this.#words[row * STRIDE + LATER]!;
    }
    this.#words[row * STRIDE + USES] = 1;
    this.#words[row * STRIDE + STATE] = state;
    this.#size++;
    return row;
  }

  #append(row: number, now: number): void {
    const at = row * STRIDE;
    this.#usedAt[row] = now;
    this.#words[at + EARLIER] = this.#newest;
    this.#words[at + LATER] = NONE;
    if (this.#newest === NONE) this.#oldest = row;
    else this.#words[this.#newest * STRIDE + LATER] = row;
    this.#newest = row;
  }

  #unlink(row: number): void {
    const at = row * STRIDE;
    const earlier = this.#words[at + EARLIER]!;
    const later = this.#words[at + LATER]!;
    if (earlier === NONE) this.#oldest = later;
    else this.#words[earlier * STRIDE + LATER] = later;
    if (later === NONE) this.#newest = earlier;
    else this.#words[later * STRIDE + EARLIER] = earlier;
  }

  #double(): void {
    const words = new Int32Array(2 * this.#words.length);
    words.set(this.#words);
    this.#words = words;
    const usedAt = new Float64Array(2 * this.#usedAt.length);
    usedAt.set(this.#usedAt);
    this.#usedAt = usedAt;
  }
}
