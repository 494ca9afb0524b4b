// What goes when the index is full: of the owners that hold more than others, what look-ups went through longest ago. A look-up goes
// from the root, so that no extent was matched later than the one it goes on; of a chain its deepest extents go first, and what is
// left can still be matched. The oldest is chosen among a sample, whose size does not depend on the index's.
import type { U64 } from '../hashing/types.ts';
import { EXTENT } from './extent-layout.ts';
import type { Extents } from './extents.ts';
import type { OwnerState } from './owner-state.ts';
import type { Residencies } from './residencies.ts';

const NONE = -1;
/** Columns looked at in a step, and looked for at most while none is of a large holder. */
const SAMPLE = 64;
const MOST_LOOKS = 4096;
/** Extents that one chain gives way at most in a step, and that are followed at most to find its end. */
const MOST_EXTENTS = 64;
const MOST_FOLLOWED = 4096;
/** Step from column to column: a share of all that visits them evenly (the golden ratio's). */
const STRIDE = 0.618033988749895;

/** Makes an index forget. */
export class Eviction {
  readonly #extents: Extents;
  readonly #residencies: Residencies;
  readonly #told: ((owner: number, external: U64) => void) | undefined;
  readonly #sample = new Int32Array(SAMPLE);
  readonly #path = new Int32Array(MOST_EXTENTS);
  #at = 0;

  /** @param told called with every engine hash that is evicted. */
  constructor(extents: Extents, residencies: Residencies, told?: (owner: number, external: U64) => void) {
    this.#extents = extents;
    this.#residencies = residencies;
    this.#told = told;
  }

  /** Bytes of the reused arrays. */
  get bytes(): number {
    return this.#sample.byteLength + this.#path.byteLength;
  }

  /**
   * Evicts about so many names, fewer when the sample has no more.
   * @param kept an extent that stays, −1 for none: something is about to be chained behind it.
   * @returns how many names were evicted; 0 only when there is nothing to evict.
   */
  evict(names: number, kept: number): number {
    let size = this.#draw(kept);
    let evicted = 0;
    while (evicted < names && size > 0) {
      const nth = this.#oldest(size);
      const column = this.#sample[nth]!;
      evicted += this.#evictFrom(column, names - evicted, kept);
      size--;
      this.#sample[nth] = this.#sample[size]!;
      size = this.#dropGone(size);
    }
    return evicted;
  }

  /** Draws columns of owners that hold no less than owners do on average; how many. */
  #draw(kept: number): number {
    const { columns } = this.#residencies;
    const { used } = columns;
    const average = columns.live / Math.max(1, this.#residencies.owners);
    const step = Math.max(1, Math.floor(used * STRIDE));
    let size = 0;
    let other = NONE;
    // One further each time, so that no step length visits the same columns again and again.
    this.#at++;
    for (let looks = 0; looks < MOST_LOOKS && looks < used && size < SAMPLE; looks++) {
      this.#at = (this.#at + step) % used;
      if (looks >= SAMPLE * 4 && size > 0) break;
      if (columns.liveOf(this.#at) === 0 || columns.extentOf(this.#at) === kept) continue;
      const state = this.#residencies.of(columns.ownerOf(this.#at));
      if (state === undefined || state.live < average) other = this.#at;
      else this.#sample[size++] = this.#at;
    }
    if (size > 0) return size;
    for (let column = 0; other === NONE && column < used; column++) {
      if (columns.liveOf(column) > 0 && columns.extentOf(column) !== kept) other = column;
    }
    if (other === NONE) return 0;
    this.#sample[0] = other;
    return 1;
  }

  /** The place in the sample of what was matched longest ago, of these the deepest. */
  #oldest(size: number): number {
    const { columns } = this.#residencies;
    let oldest = 0;
    let age = NONE;
    let depth = 0;
    for (let nth = 0; nth < size; nth++) {
      const extent = columns.extentOf(this.#sample[nth]!);
      const itsAge = this.#extents.ageOf(extent);
      if (itsAge < age) continue;
      const itsDepth = this.#extents.arena.heads.get(extent, EXTENT.POSITION);
      if (itsAge === age && itsDepth <= depth) continue;
      oldest = nth;
      age = itsAge;
      depth = itsDepth;
    }
    return oldest;
  }

  /** Evicts what its owner holds behind a column's extent from the deepest on, then the extent itself; up to so many names. */
  #evictFrom(column: number, names: number, kept: number): number {
    const { columns } = this.#residencies;
    const state = this.#residencies.of(columns.ownerOf(column));
    if (state === undefined) return 0;
    const depth = this.#pathFrom(columns.extentOf(column), state, kept);
    const least = Math.max(0, depth - MOST_EXTENTS);
    let evicted = 0;
    for (let nth = depth - 1; nth >= least && evicted < names; nth--) {
      evicted += this.#residencies.evict(this.#path[nth % MOST_EXTENTS]!, state, this.#told);
    }
    return evicted;
  }

  /** Follows a chain from an extent as far as its owner holds it; how many extents. None when it leads to the one to be kept. */
  #pathFrom(extent: number, state: OwnerState, kept: number): number {
    let depth = 0;
    for (let at = extent; at !== NONE && depth < MOST_FOLLOWED; at = this.#extents.after(at)) {
      if (at === kept) return 0;
      if (this.#residencies.columns.first(at, state.owner) === NONE) break;
      this.#path[depth++ % MOST_EXTENTS] = at;
    }
    return depth;
  }

  /** Leaves columns out that were given back; how many are left. */
  #dropGone(size: number): number {
    let left = 0;
    for (let nth = 0; nth < size; nth++) {
      if (this.#residencies.columns.liveOf(this.#sample[nth]!) > 0) this.#sample[left++] = this.#sample[nth]!;
    }
    return left;
  }
}
