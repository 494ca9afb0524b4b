// Blocks that an owner holds no more: frontiers at or behind them recede to the block before the first of them. Followed from the removed
// blocks down, where paths of the owner go, so that nothing is met but what changes, and the children and frontiers beside it.
import type { HashPairs } from '../hashing/types.ts';
import type { Antichain } from './antichain.ts';
import type { Frontiers } from './frontiers.ts';
import { FRONTIERS, type LineageForest, NONE } from './lineage-forest.ts';
import type { OwnerPaths } from './owner-paths.ts';

const MOST_REMOVALS = 2 ** 31 - 1;

/** Applies removals, one at a time. */
export class Removal {
  readonly #forest: LineageForest;
  readonly #paths: OwnerPaths;
  readonly #frontiers: Frontiers;
  readonly #antichain: Antichain;
  /** The present removal, as pairs and frontiers note it; 0 is none. */
  #number = 0;
  #removed = new Int32Array(64);
  readonly #below: number[] = [];
  readonly #pairs: number[] = [];

  constructor(forest: LineageForest, paths: OwnerPaths, frontiers: Frontiers, antichain: Antichain) {
    this.#forest = forest;
    this.#paths = paths;
    this.#frontiers = frontiers;
    this.#antichain = antichain;
  }

  /** Bytes of all arrays. */
  get bytes(): number {
    return this.#removed.byteLength;
  }

  /** Removes blocks from an owner, in any order. Returns how many frontiers were concerned. */
  apply(owner: number, hashes: HashPairs): number {
    const forest = this.#forest;
    const paths = this.#paths;
    const removed = forest.newMarks();
    const count = this.#mark(owner, hashes, removed);
    if (count === 0) return 0;
    this.#number = (this.#number % MOST_REMOVALS) + 1;
    let moved = 0;
    for (let i = 0; i < count; i++) {
      const node = this.#removed[i]!;
      if (paths.count(owner, node) === 0) continue;
      let to = forest.parent(node);
      while (to !== NONE && forest.markOf(to) === removed) to = forest.parent(to);
      // Held meanwhile, so that nothing before it changes when the last frontier behind it goes and comes back to it.
      if (to !== NONE) paths.add(owner, to);
      moved += this.#pull(owner, node, to);
      if (to !== NONE) paths.remove(owner, to);
    }
    for (let pair = this.#pairs.pop(); pair !== undefined; pair = this.#pairs.pop())
      this.#antichain.reduce(pair);
    return moved;
  }

  /** Marks and lists those of the blocks through which paths of the owner go. */
  #mark(owner: number, hashes: HashPairs, mark: number): number {
    const forest = this.#forest;
    const blocks = hashes.length >> 1;
    if (this.#removed.length < blocks) this.#removed = new Int32Array(2 * blocks);
    let count = 0;
    for (let i = 0; i < blocks; i++) {
      const row = forest.find(hashes[2 * i]!, hashes[2 * i + 1]!);
      if (row === NONE || this.#paths.count(owner, row) === 0) continue;
      forest.setMark(row, mark);
      this.#removed[count++] = row;
    }
    return count;
  }

  /**
   * Moves the owner's frontiers at and behind a block to another one; NONE = they go. Whether the pair has a deeper frontier there is
   * left open, as a further block of this removal may change it.
   */
  #pull(owner: number, node: number, to: number): number {
    const forest = this.#forest;
    const frontiers = this.#frontiers;
    const below = this.#below;
    let moved = 0;
    below.push(node);
    for (let x = below.pop(); x !== undefined; x = below.pop()) {
      for (let f = forest.get(x, FRONTIERS); f !== NONE; ) {
        const next = frontiers.nextOfNode(f);
        const pair = frontiers.pairOf(f);
        if (frontiers.pairs.owner(pair) === owner) {
          if (to === NONE) {
            if (!frontiers.wasMovedBy(f, this.#number)) moved++;
            frontiers.delete(f);
          } else {
            if (frontiers.move(f, to, this.#number)) moved++;
            if (frontiers.noteRemoval(pair, this.#number)) this.#pairs.push(pair);
          }
        }
        f = next;
      }
      let left = this.#paths.count(owner, x);
      for (let child = forest.firstChild(x); left > 0 && child !== NONE; child = forest.sibling(child)) {
        if (this.#paths.count(owner, child) === 0) continue;
        below.push(child);
        left--;
      }
    }
    return moved;
  }
}
