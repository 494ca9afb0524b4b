// Questions about the blocks of one session on one owner.
import type { HashPairs } from '../hashing/types.ts';
import { FIRST, SIZE } from './frontier-pairs.ts';
import type { Frontiers } from './frontiers.ts';
import { type LineageForest, NONE } from './lineage-forest.ts';
import type { OwnerPaths } from './owner-paths.ts';

/** Reads paths from frontiers up. */
export class SessionBlocks {
  readonly #forest: LineageForest;
  readonly #paths: OwnerPaths;
  readonly #frontiers: Frontiers;
  /** The path that is shown. */
  #room = new Uint32Array(256);

  constructor(forest: LineageForest, paths: OwnerPaths, frontiers: Frontiers) {
    this.#forest = forest;
    this.#paths = paths;
    this.#frontiers = frontiers;
  }

  /** Bytes of all arrays. */
  get bytes(): number {
    return this.#room.byteLength;
  }

  /**
   * Shows the path to each frontier of a pair, first block first; with `anchor` only those through it, from it on. The array is written
   * again for the next path.
   */
  forEachPath(pair: number, anchor: number, visit: (path: HashPairs) => void): void {
    const forest = this.#forest;
    const frontiers = this.#frontiers;
    for (let f = frontiers.pairs.get(pair, FIRST); f !== NONE; f = frontiers.nextOfPair(f)) {
      const node = frontiers.nodeOf(f);
      const length = forest.pathLength(node, anchor);
      if (length === 0) continue;
      if (this.#room.length < 2 * length) this.#room = new Uint32Array(4 * length);
      forest.writePath(node, length, this.#room);
      visit(this.#room.subarray(0, 2 * length));
    }
  }

  /** Every block of these paths once, none before its parent. */
  unique(pair: number): HashPairs {
    const forest = this.#forest;
    const frontiers = this.#frontiers;
    const written = forest.newMarks();
    const rows: number[] = [];
    for (let f = frontiers.pairs.get(pair, FIRST); f !== NONE; f = frontiers.nextOfPair(f)) {
      const start = rows.length;
      for (let x = frontiers.nodeOf(f); x !== NONE && forest.markOf(x) !== written; x = forest.parent(x)) {
        forest.setMark(x, written);
        rows.push(x);
      }
      reverse(rows, start);
    }
    return this.#hashes(rows);
  }

  /**
   * Blocks of these paths through which no path of another session on the owner goes, none before its parent: what may be evicted
   * with the session.
   */
  exclusive(pair: number): HashPairs {
    const forest = this.#forest;
    const frontiers = this.#frontiers;
    const owner = frontiers.pairs.owner(pair);
    /** How many of the owner's paths at a block were found to be the session's alone, where there is more than one. */
    const own = new Map<number, number>();
    const rows: number[] = [];
    for (let left = frontiers.pairs.get(pair, SIZE), f = frontiers.pairs.get(pair, FIRST); left > 0; left--) {
      for (let x = frontiers.nodeOf(f); x !== NONE; x = forest.parent(x)) {
        const count = this.#paths.count(owner, x);
        if (count > 1) {
          const found = (own.get(x) ?? 0) + 1;
          own.set(x, found);
          if (found < count) break;
        }
        rows.push(x);
      }
      f = frontiers.nextOfPair(f);
    }
    reverse(rows, 0);
    return this.#hashes(rows);
  }

  #hashes(rows: readonly number[]): HashPairs {
    const pairs = new Uint32Array(2 * rows.length);
    for (let i = 0; i < rows.length; i++) {
      pairs[2 * i] = this.#forest.low(rows[i]!);
      pairs[2 * i + 1] = this.#forest.high(rows[i]!);
    }
    return pairs;
  }
}

function reverse(rows: number[], from: number): void {
  for (let low = from, high = rows.length - 1; low < high; low++, high--) {
    const row = rows[low]!;
    rows[low] = rows[high]!;
    rows[high] = row;
  }
}
