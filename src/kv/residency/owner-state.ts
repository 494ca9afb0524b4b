// What the index knows of one owner as a whole.
import { type ByteTally, RowTable } from './row-table.ts';
import { SegmentedRows } from './segmented-rows.ts';
import { TIER_BITS } from './tier-bits.ts';

const NONE = -1;
const BORN_MASK = 2 ** 23 - 1;

/** One owner's names and clears. */
export class OwnerState {
  readonly owner: number;
  /** Its first column, −1 for none. */
  head: number = NONE;
  /** The name it stored last, which may be gone or another's since; −1 for none. */
  latest: number = NONE;
  /** Clears per tier modulo 256, a byte each. Blocks of columns that note others are cleared, though still in place. */
  clears = 0;
  /** Clears of all tiers, modulo 2^23. */
  born = 0;
  /** Names in columns, cleared ones that are still in place included. */
  live = 0;
  /** Blocks held per tier; cleared ones are not counted. */
  readonly held: number[] = new Array<number>(TIER_BITS).fill(0);
  /** Clears since no cleared block was in place. */
  unswept = 0;
  /** The column at which clearing away goes on, −1 at the end. */
  cursor: number = NONE;
  /** (Tier, name) pairs that were evicted and not yet removed by its engine, at most. */
  evicted = 0;
  #names: RowTable | null = null;
  #routerNames: RowTable | null = null;
  readonly #rows: SegmentedRows;
  readonly #blocks: SegmentedRows;
  readonly #tally: ByteTally;

  /**
   * @param rows rows of engine hashes.
   * @param blocks rows of blocks, which begin with the router's hash.
   * @param tally counts the bytes of its tables.
   */
  constructor(owner: number, rows: SegmentedRows, blocks: SegmentedRows, tally: ByteTally) {
    this.owner = owner;
    this.#tally = tally;
    this.#rows = rows;
    this.#blocks = blocks;
  }

  /** Bytes that so many names add at most. */
  growth(names: number): number {
    const own = this.#names?.growth(names) ?? 0;
    return Math.max(own, this.#routerNames?.growth(names) ?? 0, 64 * names);
  }

  /** Table slots looked at so far. */
  get probes(): number {
    return (this.#names?.probes ?? 0) + (this.#routerNames?.probes ?? 0);
  }

  /** Whether cleared blocks are still in place. */
  get isSwept(): boolean {
    return this.unswept === 0;
  }

  /** Engine hashes; null when there are none. */
  get names(): RowTable | null {
    return this.#names;
  }

  /** Blocks whose engine hash is the router's; null when there are none. */
  get routerNames(): RowTable | null {
    return this.#routerNames;
  }

  /** Engine hashes, to add one. */
  namesToFill(): RowTable {
    this.#names ??= new RowTable(this.#rows, 0, true, this.#tally);
    return this.#names;
  }

  /** Blocks whose engine hash is the router's, to add one. */
  routerNamesToFill(): RowTable {
    this.#routerNames ??= new RowTable(this.#blocks, 0, false, this.#tally);
    return this.#routerNames;
  }

  /** Marks the blocks on some tiers as cleared; returns how many (tier, block) pairs were held. */
  clear(tiers: number, all: boolean): number {
    let cleared = 0;
    if (all) this.evicted = 0;
    for (let tier = 0; tier < TIER_BITS; tier++) {
      if (((tiers >> tier) & 1) === 0 || this.held[tier] === 0) continue;
      cleared += this.held[tier]!;
      this.held[tier] = 0;
    }
    if (cleared === 0) return 0;
    for (let tier = 0; tier < TIER_BITS; tier++) {
      if (((tiers >> tier) & 1) === 0) continue;
      const shift = 8 * tier;
      const byte = ((this.clears >>> shift) + 1) & 255;
      this.clears = (this.clears & ~(255 << shift)) | (byte << shift);
    }
    if (all) {
      this.born = (this.born + 1) & BORN_MASK;
      this.dropTables();
    }
    this.unswept++;
    this.cursor = this.head;
    return cleared;
  }

  /** Forgets all engine hashes. */
  dropTables(): void {
    this.#names?.leave();
    this.#routerNames?.leave();
    this.#names = null;
    this.#routerNames = null;
  }

  /** Tiers that were cleared since a column noted `clears`. */
  staleTiers(clears: number): number {
    const differs = clears ^ this.clears;
    if (differs === 0) return 0;
    let tiers = 0;
    for (let tier = 0; tier < TIER_BITS; tier++)
      if (((differs >>> (8 * tier)) & 255) !== 0) tiers |= 1 << tier;
    return tiers;
  }
}

/**
 * Stands for no owner. It is there from the start and never goes: V8 drops what it compiled for a shape of objects when the last of them
 * is gone, and an index would be slow anew after its last owner went.
 */
export const NO_OWNER: OwnerState = new OwnerState(NONE, new SegmentedRows(1), new SegmentedRows(1), {
  bytes: 0,
});
