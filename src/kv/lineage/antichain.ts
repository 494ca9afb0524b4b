// Keeps the frontiers of a session on an owner apart: none lies before another, for the deeper one says it all.
import { FIRST, LAST, SIZE } from './frontier-pairs.ts';
import type { Frontiers } from './frontiers.ts';
import { type LineageForest, NONE } from './lineage-forest.ts';
import type { OwnerPaths } from './owner-paths.ts';

/** Looks at the frontiers of one pair at a time; each block before them at most once. */
export class Antichain {
  readonly #forest: LineageForest;
  readonly #paths: OwnerPaths;
  readonly #frontiers: Frontiers;

  constructor(forest: LineageForest, paths: OwnerPaths, frontiers: Frontiers) {
    this.#forest = forest;
    this.#paths = paths;
    this.#frontiers = frontiers;
  }

  /** Whether a block is a frontier of a pair or lies before one. */
  covers(pair: number, node: number): boolean {
    const forest = this.#forest;
    const frontiers = this.#frontiers;
    const first = frontiers.pairs.get(pair, FIRST);
    for (let f = first; f !== NONE; f = frontiers.nextOfPair(f))
      if (frontiers.nodeOf(f) === node) return true;
    const isLeaf = forest.firstChild(node) === NONE;
    if (isLeaf || this.#paths.count(frontiers.pairs.owner(pair), node) === 0) return false;
    const visited = forest.newMarks();
    for (let f = first; f !== NONE; f = frontiers.nextOfPair(f)) {
      for (let x = frontiers.nodeOf(f); x !== NONE && forest.markOf(x) !== visited; x = forest.parent(x)) {
        if (x === node) return true;
        forest.setMark(x, visited);
      }
    }
    return false;
  }

  /** The frontier of a pair that lies before a block; NONE when there is none. There is one at most. */
  before(pair: number, node: number): number {
    const forest = this.#forest;
    const frontiers = this.#frontiers;
    const first = frontiers.pairs.get(pair, FIRST);
    const here = forest.newMarks();
    for (let f = first; f !== NONE; f = frontiers.nextOfPair(f)) forest.setMark(frontiers.nodeOf(f), here);
    let met = forest.parent(node);
    while (met !== NONE && forest.markOf(met) !== here) met = forest.parent(met);
    if (met === NONE) return NONE;
    let f = first;
    while (frontiers.nodeOf(f) !== met) f = frontiers.nextOfPair(f);
    return f;
  }

  /** Takes out frontiers of a pair that lie before others, and of several at one block all but the newest. */
  reduce(pair: number): void {
    const forest = this.#forest;
    const frontiers = this.#frontiers;
    const { pairs } = frontiers;
    if (pairs.get(pair, SIZE) < 2) return;
    const visited = forest.newMarks();
    const isFrontier = visited + 1;
    const isBefore = visited + 2;
    for (let f = pairs.get(pair, LAST); f !== NONE; ) {
      const older = frontiers.previousOfPair(f);
      const node = frontiers.nodeOf(f);
      if (forest.markOf(node) === isFrontier) frontiers.delete(f);
      else forest.setMark(node, isFrontier);
      f = older;
    }
    for (let f = pairs.get(pair, FIRST); f !== NONE; f = frontiers.nextOfPair(f)) {
      let x = forest.parent(frontiers.nodeOf(f));
      while (x !== NONE && forest.markOf(x) < visited) {
        forest.setMark(x, visited);
        x = forest.parent(x);
      }
      if (x !== NONE && forest.markOf(x) === isFrontier) forest.setMark(x, isBefore);
    }
    for (let f = pairs.get(pair, FIRST); f !== NONE; ) {
      const newer = frontiers.nextOfPair(f);
      if (forest.markOf(frontiers.nodeOf(f)) === isBefore) frontiers.delete(f);
      f = newer;
    }
  }
}
