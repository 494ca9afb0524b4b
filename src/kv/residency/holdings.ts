// What each owner calls the blocks it holds: a holding is one owner's (engine hash → block), with the tiers it lies on. Found by
// (owner, engine hash) for events and by (block, owner) for translating back. An owner that announces one block under several
// engine hashes has a holding for each; they form a list, newest first.
import { RowArena } from './row-arena.ts';
import { RowTable } from './row-table.ts';
import { TIER_BITS } from './tier-bits.ts';

const EXTERNAL = 0;
const BLOCK = 2;
const OWNER = 3;
/** (next holding of the same block and owner + 1) << TIER_BITS | tier mask. */
const LINK = 4;
const STRIDE = 5;
const TIERS_MASK = 2 ** TIER_BITS - 1;
const NONE = -1;

/** All holdings of all owners. */
export class Holdings {
  readonly #rows = new RowArena(STRIDE);
  /** First holding of every (block, owner); the key is the words BLOCK and OWNER. */
  readonly #heads = new RowTable(this.#rows, BLOCK);
  #ofOwner: (RowTable | null)[] = [];
  #probes = 0;

  /** Holdings in use. */
  get live(): number {
    return this.#rows.live;
  }

  /** Upper end of holding ids, for scans. */
  get used(): number {
    return this.#rows.used;
  }

  /** Table slots looked at so far. */
  get probes(): number {
    let probes = this.#probes + this.#heads.probes;
    for (const table of this.#ofOwner) probes += table?.probes ?? 0;
    return probes;
  }

  /** Bytes of all arrays. */
  get bytes(): number {
    let bytes = this.#rows.bytes + this.#heads.bytes;
    for (const table of this.#ofOwner) bytes += table?.bytes ?? 0;
    return bytes;
  }

  /** The owner's holding under an engine hash (signed halves), −1 when there is none. */
  find(owner: number, lo: number, hi: number): number {
    return this.#ofOwner[owner]?.find(lo, hi) ?? NONE;
  }

  /** The owner's newest holding of a block, −1 when it has none. */
  first(block: number, owner: number): number {
    return this.#heads.find(block, owner);
  }

  /** The block of a holding in use. */
  blockOf(holding: number): number {
    return this.#rows.words[holding * STRIDE + BLOCK]!;
  }

  /** The owner of a holding. */
  ownerOf(holding: number): number {
    return this.#rows.words[holding * STRIDE + OWNER]!;
  }

  /** The tiers of a holding; 0 when the id is free. */
  tiersOf(holding: number): number {
    return this.#rows.words[holding * STRIDE + LINK]! & TIERS_MASK;
  }

  /** Low half of the engine hash, signed. */
  externalLo(holding: number): number {
    return this.#rows.words[holding * STRIDE + EXTERNAL]!;
  }

  /** High half of the engine hash, signed. */
  externalHi(holding: number): number {
    return this.#rows.words[holding * STRIDE + EXTERNAL + 1]!;
  }

  /** The tiers of a list of holdings that starts at `first` (−1: none). */
  tiersFrom(first: number): number {
    let tiers = 0;
    for (let holding = first; holding !== NONE; holding = this.#next(holding)) tiers |= this.tiersOf(holding);
    return tiers;
  }

  /** Makes room for `more` new holdings of one owner, so that as many `add`s cannot fail. */
  reserve(owner: number, more: number): void {
    this.#rows.reserve(more);
    this.#heads.reserve(more);
    this.#tableOf(owner).reserve(more);
  }

  /** A new holding of `block`, put before `first`, the owner's newest so far (−1: none). */
  add(owner: number, lo: number, hi: number, block: number, first: number, tiers: number): void {
    const holding = this.#rows.take();
    const words = this.#rows.words;
    const row = holding * STRIDE;
    words[row + EXTERNAL] = lo;
    words[row + EXTERNAL + 1] = hi;
    words[row + BLOCK] = block;
    words[row + OWNER] = owner;
    words[row + LINK] = ((first + 1) << TIER_BITS) | tiers;
    this.#tableOf(owner).insert(holding);
    if (first === NONE) this.#heads.insert(holding);
    else this.#heads.replace(first, holding);
  }

  /** Adds tiers to a holding. */
  addTiers(holding: number, tiers: number): void {
    this.#rows.words[holding * STRIDE + LINK]! |= tiers;
  }

  /**
   * Takes tiers off a holding; without any left the holding is gone.
   * @param first the owner's newest holding of the same block; returns which it is afterwards, −1 for none.
   */
  takeTiers(holding: number, tiers: number, first: number): number {
    const link = holding * STRIDE + LINK;
    this.#rows.words[link]! &= ~tiers;
    if ((this.#rows.words[link]! & TIERS_MASK) !== 0) return first;
    this.#tableOf(this.ownerOf(holding)).delete(holding);
    const left = this.#unlink(holding, first);
    this.#rows.give(holding);
    return left;
  }

  /** Ids of all holdings of an owner; a fresh array. */
  ofOwner(owner: number): Int32Array {
    return this.#ofOwner[owner]?.ids() ?? new Int32Array(0);
  }

  /** Gives back the table of an owner without holdings. */
  trim(owner: number): void {
    const table = this.#ofOwner[owner];
    if (!table || table.count > 0) return;
    this.#probes += table.probes;
    this.#ofOwner[owner] = null;
  }

  #next(holding: number): number {
    return (this.#rows.words[holding * STRIDE + LINK]! >> TIER_BITS) - 1;
  }

  #unlink(holding: number, first: number): number {
    const words = this.#rows.words;
    const next = this.#next(holding);
    if (first !== holding) {
      let before = first;
      while (this.#next(before) !== holding) before = this.#next(before);
      words[before * STRIDE + LINK] = ((next + 1) << TIER_BITS) | this.tiersOf(before);
      return first;
    }
    if (next === NONE) this.#heads.delete(holding);
    else this.#heads.replace(holding, next);
    return next;
  }

  #tableOf(owner: number): RowTable {
    while (this.#ofOwner.length <= owner) this.#ofOwner.push(null);
    let table = this.#ofOwner[owner];
    if (!table) {
      table = new RowTable(this.#rows, EXTERNAL);
      this.#ofOwner[owner] = table;
    }
    return table;
  }
}
