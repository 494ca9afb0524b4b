// The rows of a match while a walk goes on: who still holds every block so far, and on which tier each has come to.
import { type HolderSets, NO_HOLDERS } from './holder-sets.ts';
import { TIER_BITS } from './tier-bits.ts';
import { TIERS } from './types.ts';

const NONE = -1;

/** Index of the nearest tier in a mask that is not empty. */
function nearest(mask: number): number {
  return 31 - Math.clz32(mask & -mask);
}

interface MatchResult {
  count: number;
  owners: Int32Array;
  depthPerTier: Int32Array[];
  version: number;
}

/** Rows of one match at a time; the arrays are reused by the next. */
export class MatchRows {
  readonly result: MatchResult = {
    count: 0,
    owners: new Int32Array(0),
    depthPerTier: TIERS.map(() => new Int32Array(0)),
    version: 0,
  };
  readonly #sets: HolderSets;
  /** Rows whose chain has not ended, ascending. */
  #active = new Int32Array(0);
  #activeCount = 0;
  /** The tier each row has come to. */
  #tier = new Uint8Array(0);
  #asked = 0;
  /** Set of holders of the blocks not yet credited, and how many these are. */
  #set = NONE;
  #run = 0;

  constructor(sets: HolderSets) {
    this.#sets = sets;
  }

  /** Bytes of the reused arrays. */
  get bytes(): number {
    return this.#tier.byteLength + this.#active.byteLength * (2 + TIERS.length);
  }

  /** Begins a match over a mask of tiers. */
  start(asked: number, version: number): void {
    this.result.version = version;
    this.result.count = 0;
    this.#asked = asked;
    this.#activeCount = 0;
    this.#set = NONE;
    this.#run = 0;
  }

  /** The next `run` blocks of the chain have the holders of a set; whether any row goes on. */
  take(set: number, run: number): boolean {
    if (set !== this.#set) {
      if (set === NO_HOLDERS) return false;
      if (this.#set === NONE) {
        this.#enter(set);
      } else {
        this.#credit();
        this.#advance(set);
      }
      this.#set = set;
      if (this.#activeCount === 0) return false;
    }
    this.#run += run;
    return true;
  }

  /** Ends the match: blocks not yet credited are. */
  finish(): void {
    this.#credit();
  }

  /** Gives a row to every holder of the first block on an asked tier. */
  #enter(set: number): void {
    const size = this.#sets.sizeOf(set);
    this.#grow(size);
    const words = this.#sets.wordsOf(set);
    const start = this.#sets.offsetOf(set);
    const { owners, depthPerTier } = this.result;
    let count = 0;
    for (let h = start; h < start + size; h++) {
      const mask = words[h]! & this.#asked;
      if (mask === 0) continue;
      owners[count] = words[h]! >> TIER_BITS;
      this.#tier[count] = nearest(mask);
      this.#active[count] = count;
      count++;
    }
    for (const depth of depthPerTier) depth.fill(0, 0, count);
    this.result.count = count;
    this.#activeCount = count;
  }

  /** Adds the run of blocks to the tier each active row is on. */
  #credit(): void {
    const { depthPerTier } = this.result;
    const run = this.#run;
    this.#run = 0;
    for (let a = 0; a < this.#activeCount; a++) {
      const row = this.#active[a]!;
      depthPerTier[this.#tier[row]!]![row]! += run;
    }
  }

  /** Moves active rows to the nearest tier they hold the next block on; rows without one are done. Both lists ascend by owner. */
  #advance(set: number): void {
    const words = this.#sets.wordsOf(set);
    let h = this.#sets.offsetOf(set);
    const end = h + this.#sets.sizeOf(set);
    const { owners } = this.result;
    let kept = 0;
    for (let a = 0; a < this.#activeCount; a++) {
      const row = this.#active[a]!;
      const owner = owners[row]!;
      while (h < end && words[h]! >> TIER_BITS < owner) h++;
      if (h === end) break;
      if (words[h]! >> TIER_BITS !== owner) continue;
      const tier = this.#tier[row]!;
      const mask = ((words[h]! & this.#asked) >> tier) << tier;
      if (mask === 0) continue;
      this.#tier[row] = nearest(mask);
      this.#active[kept++] = row;
    }
    this.#activeCount = kept;
  }

  #grow(rows: number): void {
    if (this.#active.length >= rows) return;
    let capacity = Math.max(16, this.#active.length);
    while (capacity < rows) capacity *= 2;
    this.#active = new Int32Array(capacity);
    this.#tier = new Uint8Array(capacity);
    this.result.owners = new Int32Array(capacity);
    for (let t = 0; t < TIERS.length; t++) this.result.depthPerTier[t] = new Int32Array(capacity);
  }
}
