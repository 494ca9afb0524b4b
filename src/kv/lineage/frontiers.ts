// The deepest blocks of sessions on owners. Each frontier is in two lists: of its pair of session and owner, the oldest first, and of
// its block. Of one pair none lies before another.
import { RowArena } from '../residency/row-arena.ts';
import { FIRST, FrontierPairs, LAST, REMOVAL, SIZE } from './frontier-pairs.ts';
import { FRONTIERS, type LineageForest, NONE } from './lineage-forest.ts';
import type { OwnerPaths } from './owner-paths.ts';
import type { SessionTable } from './session-table.ts';

/** Words of a row. */
const PAIR = 0;
const NODE = 1;
const NEXT_OF_NODE = 2;
const PREVIOUS_OF_NODE = 3;
const NEXT_OF_PAIR = 4;
const PREVIOUS_OF_PAIR = 5;
/** The last removal that moved it. */
const MOVED_BY = 6;
const STRIDE = 7;

/** Rows of frontiers. */
export class Frontiers {
  readonly pairs: FrontierPairs;
  readonly #forest: LineageForest;
  readonly #paths: OwnerPaths;
  readonly #arena = new RowArena(STRIDE, NEXT_OF_PAIR);
  readonly #rows = this.#arena.rows;

  constructor(forest: LineageForest, paths: OwnerPaths, sessions: SessionTable) {
    this.#forest = forest;
    this.#paths = paths;
    this.pairs = new FrontierPairs(sessions);
  }

  /** Frontiers. */
  get size(): number {
    return this.#arena.live;
  }

  /** Bytes of what is in use. */
  get usedBytes(): number {
    return this.#arena.live * 4 * STRIDE + this.pairs.usedBytes;
  }

  /** Bytes of all arrays. */
  get bytes(): number {
    return this.#rows.bytes + this.pairs.bytes;
  }

  pairOf(frontier: number): number {
    return this.#rows.get(frontier, PAIR);
  }

  nodeOf(frontier: number): number {
    return this.#rows.get(frontier, NODE);
  }

  nextOfNode(frontier: number): number {
    return this.#rows.get(frontier, NEXT_OF_NODE);
  }

  nextOfPair(frontier: number): number {
    return this.#rows.get(frontier, NEXT_OF_PAIR);
  }

  previousOfPair(frontier: number): number {
    return this.#rows.get(frontier, PREVIOUS_OF_PAIR);
  }

  /** Adds a frontier of a pair, as its newest. */
  add(pair: number, node: number): void {
    const rows = this.#rows;
    const { pairs } = this;
    const frontier = this.#arena.take();
    const last = pairs.get(pair, LAST);
    rows.set(frontier, PAIR, pair);
    rows.set(frontier, MOVED_BY, 0);
    rows.set(frontier, NEXT_OF_PAIR, NONE);
    rows.set(frontier, PREVIOUS_OF_PAIR, last);
    if (last === NONE) pairs.set(pair, FIRST, frontier);
    else rows.set(last, NEXT_OF_PAIR, frontier);
    pairs.set(pair, LAST, frontier);
    pairs.set(pair, SIZE, pairs.get(pair, SIZE) + 1);
    this.#enter(frontier, node);
  }

  /** Takes a frontier out; a pair without any goes, and a session without pairs. */
  delete(frontier: number): void {
    const rows = this.#rows;
    const { pairs } = this;
    const pair = rows.get(frontier, PAIR);
    this.#leave(frontier);
    const next = rows.get(frontier, NEXT_OF_PAIR);
    const previous = rows.get(frontier, PREVIOUS_OF_PAIR);
    if (next === NONE) pairs.set(pair, LAST, previous);
    else rows.set(next, PREVIOUS_OF_PAIR, previous);
    if (previous === NONE) pairs.set(pair, FIRST, next);
    else rows.set(previous, NEXT_OF_PAIR, next);
    const left = pairs.get(pair, SIZE) - 1;
    pairs.set(pair, SIZE, left);
    this.#arena.give(frontier);
    if (left === 0) pairs.delete(pair);
  }

  /** Takes all frontiers of a pair out. Returns how many there were. */
  deletePair(pair: number): number {
    const { pairs } = this;
    const size = pairs.get(pair, SIZE);
    for (let left = size; left > 0; left--) this.delete(pairs.get(pair, FIRST));
    return size;
  }

  /** Puts a frontier at another block, as old as it is. Whether it is the first time in this removal. */
  move(frontier: number, node: number, removal: number): boolean {
    this.#leave(frontier);
    this.#enter(frontier, node);
    const isFirst = this.#rows.get(frontier, MOVED_BY) !== removal;
    this.#rows.set(frontier, MOVED_BY, removal);
    return isFirst;
  }

  /** Whether a removal moved it before. */
  wasMovedBy(frontier: number, removal: number): boolean {
    return this.#rows.get(frontier, MOVED_BY) === removal;
  }

  /** Notes that a removal moves a frontier of a pair. Whether it is the first one. */
  noteRemoval(pair: number, removal: number): boolean {
    const isFirst = this.pairs.get(pair, REMOVAL) !== removal;
    this.pairs.set(pair, REMOVAL, removal);
    return isFirst;
  }

  #enter(frontier: number, node: number): void {
    const rows = this.#rows;
    const first = this.#forest.get(node, FRONTIERS);
    rows.set(frontier, NODE, node);
    rows.set(frontier, NEXT_OF_NODE, first);
    rows.set(frontier, PREVIOUS_OF_NODE, NONE);
    if (first !== NONE) rows.set(first, PREVIOUS_OF_NODE, frontier);
    this.#forest.set(node, FRONTIERS, frontier);
    this.#paths.add(this.pairs.owner(rows.get(frontier, PAIR)), node);
  }

  #leave(frontier: number): void {
    const rows = this.#rows;
    const node = rows.get(frontier, NODE);
    const next = rows.get(frontier, NEXT_OF_NODE);
    const previous = rows.get(frontier, PREVIOUS_OF_NODE);
    if (next !== NONE) rows.set(next, PREVIOUS_OF_NODE, previous);
    if (previous === NONE) this.#forest.set(node, FRONTIERS, next);
    else rows.set(previous, NEXT_OF_NODE, next);
    this.#paths.remove(this.pairs.owner(rows.get(frontier, PAIR)), node);
    this.#forest.lost(node);
  }
}
