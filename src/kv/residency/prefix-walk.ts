// The walk of a prompt's chain through the resident blocks. Every owner moves through the asked tiers from near to far and never
// back, so one pass gives device depth and the continuation on each further tier, exact also where a chain has holes. Work per
// block is one table look-up and one compare; owners are touched only where the set of holders changes.
import type { HolderSets } from './holder-sets.ts';
import { BLOCK, BLOCK_STRIDE, type ResidentBlocks } from './resident-blocks.ts';
import { TIER_BITS } from './tier-bits.ts';
import { TIERS } from './types.ts';

const NONE = -1;

/** Index of the nearest tier in a mask that is not empty. */
function nearest(mask: number): number {
  return 31 - Math.clz32(mask & -mask);
}

interface WalkResult {
  count: number;
  owners: Int32Array;
  depthPerTier: Int32Array[];
  version: number;
}

/** Walks chains; its result arrays are reused by the next walk. */
export class PrefixWalk {
  readonly #blocks: ResidentBlocks;
  readonly #sets: HolderSets;
  readonly #result: WalkResult = {
    count: 0,
    owners: new Int32Array(0),
    depthPerTier: TIERS.map(() => new Int32Array(0)),
    version: 0,
  };
  /** Rows whose chain has not ended, ascending. */
  #active = new Int32Array(0);
  #activeCount = 0;
  /** The tier each row has come to. */
  #tier = new Uint8Array(0);

  constructor(blocks: ResidentBlocks) {
    this.#blocks = blocks;
    this.#sets = blocks.sets;
  }

  /** Bytes of the reused arrays. */
  get bytes(): number {
    return this.#tier.byteLength + this.#active.byteLength * (2 + TIERS.length);
  }

  /** Longest prefix per owner over the tiers of `asked`. */
  walk(sequence: Uint32Array, asked: number, version: number): WalkResult {
    const resident = this.#blocks;
    const result = this.#result;
    result.version = version;
    result.count = 0;
    const blocks = sequence.length >> 1;
    if (blocks === 0 || asked === 0) return result;
    let block = resident.find(sequence, 0);
    if (block === NONE) return result;
    // No event can come in between, so rows do not move during the walk.
    const rows = resident.rows.words;
    let set = rows[block * BLOCK_STRIDE + BLOCK.HOLDERS]!;
    this.#enter(set, asked);
    let runStart = 0;
    let i = 1;
    for (; i < blocks && this.#activeCount > 0; i++) {
      block = resident.findAfter(block, sequence, i);
      if (block === NONE) break;
      const holders = rows[block * BLOCK_STRIDE + BLOCK.HOLDERS]!;
      if (holders === set) continue;
      this.#credit(i - runStart);
      runStart = i;
      set = holders;
      this.#advance(set, asked);
    }
    this.#credit(i - runStart);
    return result;
  }

  /** Gives a row to every holder of the first block on an asked tier. */
  #enter(set: number, asked: number): void {
    const size = this.#sets.sizeOf(set);
    this.#grow(size);
    const words = this.#sets.words;
    const start = this.#sets.offsetOf(set);
    const { owners, depthPerTier } = this.#result;
    let count = 0;
    for (let h = start; h < start + size; h++) {
      const mask = words[h]! & asked;
      if (mask === 0) continue;
      owners[count] = words[h]! >> TIER_BITS;
      this.#tier[count] = nearest(mask);
      this.#active[count] = count;
      count++;
    }
    for (const depth of depthPerTier) depth.fill(0, 0, count);
    this.#result.count = count;
    this.#activeCount = count;
  }

  /** Adds a run of blocks to the tier each active row is on. */
  #credit(run: number): void {
    const { depthPerTier } = this.#result;
    for (let a = 0; a < this.#activeCount; a++) {
      const row = this.#active[a]!;
      depthPerTier[this.#tier[row]!]![row]! += run;
    }
  }

  /** Moves active rows to the nearest tier they hold the next block on; rows without one are done. Both lists ascend by owner. */
  #advance(set: number, asked: number): void {
    const words = this.#sets.words;
    let h = this.#sets.offsetOf(set);
    const end = h + this.#sets.sizeOf(set);
    const { owners } = this.#result;
    let kept = 0;
    for (let a = 0; a < this.#activeCount; a++) {
      const row = this.#active[a]!;
      const owner = owners[row]!;
      while (h < end && words[h]! >> TIER_BITS < owner) h++;
      if (h === end) break;
      if (words[h]! >> TIER_BITS !== owner) continue;
      const tier = this.#tier[row]!;
      const mask = ((words[h]! & asked) >> tier) << tier;
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
    this.#result.owners = new Int32Array(capacity);
    for (let t = 0; t < TIERS.length; t++) this.#result.depthPerTier[t] = new Int32Array(capacity);
  }
}
