// One match or store on its way into the forest: looked at whole before it changes anything.
import type { HashPairs, U64 } from '../hashing/types.ts';
import { hashAt } from '../hashing/u64.ts';
import { U64Map } from '../hashing/u64-map.ts';
import { EventScratch } from '../residency/event-scratch.ts';
import { type LineageForest, NONE } from './lineage-forest.ts';
import type { LineageOutcome } from './types.ts';

/** Checks and adds chains, one at a time. */
export class ChainUpdate {
  readonly #forest: LineageForest;
  readonly #onGraft: (row: number) => void;
  readonly #scratch = new EventScratch();
  /** Row of each block of the chain; NONE = it is to be added. */
  #rows = new Int32Array(64);
  /** From this block on something may have to be added or grafted. */
  #from = 0;
  #parent = NONE;

  /** @param onGraft called after a block that had no parent got one. */
  constructor(forest: LineageForest, onGraft: (row: number) => void) {
    this.#forest = forest;
    this.#onGraft = onGraft;
  }

  /** Bytes of all arrays. */
  get bytes(): number {
    return this.#rows.byteLength + this.#scratch.bytes;
  }

  /**
   * Looks at a chain that is not empty.
   * @param isAnchored whether `parent` is said to be before the first block, null = nothing is; else nothing is said of that.
   * @returns what is wrong with it; null = nothing, and `apply` may follow.
   */
  check(parent: U64 | null, hashes: HashPairs, isAnchored: boolean): LineageOutcome | null {
    const count = hashes.length >> 1;
    if (this.#rows.length < count) this.#rows = new Int32Array(2 * count);
    this.#parent = parent === null ? NONE : this.#forest.find(parent.lo, parent.hi);
    if (this.#continues(parent, hashes, isAnchored)) return null;
    return this.#checkEach(parent, hashes, isAnchored);
  }

  /** Adds what is missing of the chain that was looked at last. Returns the row of its last block. */
  apply(parent: U64 | null, hashes: HashPairs): number {
    const forest = this.#forest;
    const rows = this.#rows;
    const from = this.#from;
    let before = from > 0 ? rows[from - 1]! : this.#parent;
    if (before === NONE && parent !== null && from === 0) before = forest.insert(parent.lo, parent.hi, NONE);
    for (let i = from; i < hashes.length >> 1; i++) {
      let row = rows[i]!;
      if (row === NONE) {
        row = forest.insert(hashes[2 * i]!, hashes[2 * i + 1]!, before);
      } else if (before !== NONE && forest.parent(row) === NONE) {
        forest.graft(row, before);
        this.#onGraft(row);
      }
      before = row;
    }
    return before;
  }

  /** Whether the chain is one that is known, from its beginning or its parent on, and then blocks that are not: nearly all are. */
  #continues(parent: U64 | null, hashes: HashPairs, isAnchored: boolean): boolean {
    const forest = this.#forest;
    const rows = this.#rows;
    const count = hashes.length >> 1;
    if (parent !== null && this.#parent === NONE) return false;
    let known = count;
    let last = NONE;
    for (; known > 0; known--) {
      last = forest.find(hashes[2 * known - 2]!, hashes[2 * known - 1]!);
      rows[known - 1] = last;
      if (last !== NONE) break;
    }
    this.#from = known;
    if (last !== NONE) {
      const first = forest.firstOf(last, hashes, known);
      if (first === NONE || (isAnchored && forest.parent(first) !== this.#parent)) return false;
    }
    if (known === count) return true;
    const unknown = hashes.subarray(2 * known);
    return unknown.length <= 2 || !this.#scratch.repeats(null, unknown, this.#scratch.mix(unknown));
  }

  /** The rules one by one, in the order in which the first that is broken is told. */
  #checkEach(parent: U64 | null, hashes: HashPairs, isAnchored: boolean): LineageOutcome | null {
    const forest = this.#forest;
    const rows = this.#rows;
    const count = hashes.length >> 1;
    const seen = new U64Map(count);
    const before = forest.newMarks();
    this.#from = 0;
    for (let x = this.#firstBefore(hashes, isAnchored); x !== NONE; x = forest.parent(x))
      forest.setMark(x, before);
    let isAwaited = false;
    for (let i = 0; i < count; i++) {
      const block = hashAt(hashes, i);
      const row = forest.find(block.lo, block.hi);
      rows[i] = row;
      const isParent = parent !== null && ((parent.lo ^ block.lo) | (parent.hi ^ block.hi)) === 0;
      const isBefore = row !== NONE && forest.markOf(row) === before;
      if (isParent || isBefore || seen.set(block.lo, block.hi, i) !== NONE)
        return { kind: 'cyclic-parent', block };
      if (row === NONE) continue;
      const itsParent = forest.parent(row);
      if (itsParent === NONE) {
        isAwaited = true;
        continue;
      }
      if (i === 0 && !isAnchored) continue;
      const expected = i === 0 ? parent : hashAt(hashes, i - 1);
      if (expected === null || !forest.is(itsParent, expected.lo, expected.hi))
        return { kind: 'conflicting-parent', block };
    }
    return parent !== null && this.#parent === NONE && !isAwaited ? { kind: 'unknown-parent', parent } : null;
  }

  /** The block before the chain, as far as one is known. */
  #firstBefore(hashes: HashPairs, isAnchored: boolean): number {
    if (isAnchored) return this.#parent;
    const first = this.#forest.find(hashes[0]!, hashes[1]!);
    return first === NONE ? NONE : this.#forest.parent(first);
  }
}
