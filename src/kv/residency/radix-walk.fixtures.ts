// How far owners hold a chain, for the radix model: all owners walk it at once, as sets that fall from tier to tier.
import { TIERS } from './types.ts';

/** Leading blocks of owners, per tier of `TIERS`; reused by the next walk. */
export interface RadixMatch {
  count: number;
  /** Owners, ascending. */
  readonly owners: Int32Array;
  /** By tier and owner, not by row. */
  readonly depths: readonly Int32Array[];
}

/** Walks chains of sets of owners by tier. */
export class RadixWalk {
  readonly #words: number;
  /** Owners whose walk is on a tier, and where each owner's came to its tier. */
  readonly #walking: Int32Array;
  readonly #since: Int32Array;
  readonly #match: RadixMatch;

  constructor(owners: number) {
    this.#words = Math.ceil(owners / 32);
    this.#walking = new Int32Array(this.width);
    this.#since = new Int32Array(owners);
    this.#match = {
      count: 0,
      owners: new Int32Array(owners),
      depths: TIERS.map(() => new Int32Array(owners)),
    };
  }

  /** Words of 32 owners of the sets of all tiers. */
  get width(): number {
    return TIERS.length * this.#words;
  }

  /** Puts an owner into the set of a tier, or takes it out. */
  mark(held: Int32Array, owner: number, tier: number, isIn: boolean): void {
    const place = tier * this.#words + (owner >> 5);
    if (isIn) held[place]! |= 1 << (owner & 31);
    else held[place]! &= ~(1 << (owner & 31));
  }

  /** The first `length` blocks of a chain, from the root on; tiers in the order of `TIERS`. */
  walk(path: readonly { readonly held: Int32Array }[], length: number, tiers: readonly number[]): RadixMatch {
    const words = this.#words;
    const walking = this.#walking;
    for (const depths of this.#match.depths) depths.fill(0);
    this.#since.fill(0);
    walking.fill(0);
    this.#begin(path[0]?.held, length, tiers);
    for (let at = 0, left = -1; left !== 0 && at < length; at++) {
      const { held } = path[at]!;
      left = 0;
      for (let word = 0; word < words; word++) {
        let falling = 0;
        for (let nth = 0; nth < tiers.length; nth++) {
          const place = tiers[nth]! * words + word;
          const here = walking[place]! | falling;
          const staying = here & held[place]!;
          falling = here & ~staying;
          walking[place] = staying;
          left |= staying;
          if (falling !== 0) this.#left(falling, word, tiers[nth]!, at);
        }
      }
    }
    for (const tier of tiers) {
      for (let word = 0; word < words; word++) this.#left(walking[tier * words + word]!, word, tier, length);
    }
    return this.#rows();
  }

  /** Owners of the first block on any of the tiers set out on the first of these. */
  #begin(held: Int32Array | undefined, length: number, tiers: readonly number[]): void {
    if (held === undefined || length === 0) return;
    for (const tier of tiers) {
      for (let word = 0; word < this.#words; word++)
        this.#walking[tiers[0]! * this.#words + word]! |= held[tier * this.#words + word]!;
    }
  }

  /** Owners of a word leave a tier before a block. */
  #left(owners: number, word: number, tier: number, at: number): void {
    for (let rest = owners; rest !== 0; rest &= rest - 1) {
      const owner = 32 * word + 31 - Math.clz32(rest & -rest);
      this.#match.depths[tier]![owner] = at - this.#since[owner]!;
      this.#since[owner] = at;
    }
  }

  /** An owner's walk came as far as its tiers add up to. */
  #rows(): RadixMatch {
    const match = this.#match;
    match.count = 0;
    for (let owner = 0; owner < this.#since.length; owner++) {
      if (this.#since[owner]! > 0) match.owners[match.count++] = owner;
    }
    return match;
  }
}
