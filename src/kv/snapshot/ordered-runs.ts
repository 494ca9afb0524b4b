// The rows of a snapshot as runs of one chain, each behind what comes before it: the order in which they can be stored again, here or in
// another index. A parent stands one place before its child, so runs by ascending place of their first block never come too soon.
import type { BlockHasher, HashPairs, U64 } from '../hashing/types.ts';
import { U64Map } from '../hashing/u64-map.ts';
import { ascending } from './ascending.ts';
import { ROW } from './layout.ts';
import type { SnapshotRows } from './snapshot-reader.ts';

const NONE = -1;
/** Blocks of one run: what one store event carries at most. */
const MAX_RUN = 4096;
/** Rows looked at between two steps of preparation: about a millisecond. */
const ROWS_PER_STEP = 2048;

/** Rows of one owner and tier that follow each other in a chain. */
export interface SnapshotRun {
  /** Number of the first row; the others come right behind it. */
  readonly first: number;
  readonly count: number;
  /** The owner's name of the block before; null at a root, and for `hole`. */
  readonly parent: U64 | null;
  /** Row of that block; −1 = none. */
  readonly before: number;
  /** The owner does not hold the block before the run. */
  readonly hole: boolean;
}

/** The rows of some owners. */
export class OrderedRuns {
  readonly #rows: SnapshotRows;
  readonly #hasher: Pick<BlockHasher, 'chain'>;
  readonly #wanted: (owner: number) => boolean;
  /** Sequence hash of each row. */
  #sequence: HashPairs = new Uint32Array(0);
  /** Rows by owner and sequence hash; of several names of a block the first. */
  #byOwner = new U64Map();
  readonly #local = new Uint32Array(2);
  /** Rows by sequence hash alone, of whichever owner; made when the first hole is met. */
  #byBlock: U64Map | null = null;
  /** First rows of runs and their lengths, as they lie. */
  readonly #starts: number[] = [];
  readonly #lengths: number[] = [];
  /** Numbers of runs by ascending place; null = not prepared yet. */
  #order: Uint32Array | null = null;

  /** @param wanted whether the rows of an owner count. */
  constructor(rows: SnapshotRows, hasher: Pick<BlockHasher, 'chain'>, wanted: (owner: number) => boolean) {
    this.#rows = rows;
    this.#hasher = hasher;
    this.#wanted = wanted;
  }

  /** Finds the runs step by step, for those who have others wait meanwhile; once. Without it the first iteration does all at once. */
  *prepare(): Generator<void, void> {
    // Large arrays take a while to be had.
    this.#sequence = new Uint32Array(2 * this.#rows.count);
    yield;
    this.#byOwner = new U64Map(this.#rows.count);
    yield;
    let before = NONE;
    for (let row = 0; row < this.#rows.count; row++) {
      if (row % ROWS_PER_STEP === ROWS_PER_STEP - 1) yield;
      before = this.#take(row, before);
    }
    const places = new Uint32Array(this.#starts.length);
    for (let run = 0; run < places.length; run++) {
      if (run % ROWS_PER_STEP === ROWS_PER_STEP - 1) yield;
      places[run] = this.#rows.position(this.#starts[run]!);
    }
    this.#order = yield* ascending(places, ROWS_PER_STEP);
  }

  /** The runs, each after those it rests on. */
  *[Symbol.iterator](): Generator<SnapshotRun, void> {
    if (this.#order === null) for (const work = this.prepare(); work.next().done !== true; );
    for (const run of this.#order ?? []) {
      const first = this.#starts[run]!;
      const count = this.#lengths[run]!;
      if (this.#rows.position(first) === 0) {
        yield { first, count, parent: null, before: NONE, hole: false };
        continue;
      }
      const before = this.#namedBefore(first);
      const parent = before === NONE ? null : this.#rows.hash(before, ROW.EXTERNAL);
      yield { first, count, parent, before, hole: before === NONE };
    }
  }

  /** Sequence hash of a row. */
  sequence(row: number): U64 {
    return { lo: this.#sequence[2 * row]!, hi: this.#sequence[2 * row + 1]! };
  }

  /** A row of whichever owner that is the block before a row, −1 when nobody holds it. */
  anyBefore(row: number): number {
    if (this.#byBlock === null) {
      this.#byBlock = new U64Map(this.#byOwner.size);
      for (let other = 0; other < this.#rows.count; other++) {
        if (!this.#wanted(this.#rows.owner(other))) continue;
        this.#byBlock.set(this.#sequence[2 * other]!, this.#sequence[2 * other + 1]!, other);
      }
    }
    const { lo, hi } = this.#rows.hash(row, ROW.PARENT);
    return this.#byBlock.get(lo, hi);
  }

  /** Puts a row into the run of the one before it, or begins another; returns the row, or none where it does not count. */
  #take(row: number, before: number): number {
    const rows = this.#rows;
    if (!this.#wanted(rows.owner(row))) return NONE;
    const { lo, hi } = rows.hash(row, ROW.LOCAL);
    this.#local[0] = lo;
    this.#local[1] = hi;
    const parent = rows.position(row) === 0 ? null : rows.hash(row, ROW.PARENT);
    this.#hasher.chain(parent, this.#local, this.#sequence.subarray(2 * row, 2 * row + 2));
    const key = ownerKey(rows.owner(row), this.#sequence[2 * row]!);
    if (!this.#byOwner.has(key, this.#sequence[2 * row + 1]!)) {
      this.#byOwner.set(key, this.#sequence[2 * row + 1]!, row);
    }
    const last = this.#lengths.length - 1;
    if (before !== NONE && this.#lengths[last]! < MAX_RUN && this.#follows(before, row)) {
      this.#lengths[last]!++;
    } else {
      this.#starts.push(row);
      this.#lengths.push(1);
    }
    return row;
  }

  #namedBefore(row: number): number {
    const { lo, hi } = this.#rows.hash(row, ROW.PARENT);
    const owner = this.#rows.owner(row);
    const found = this.#byOwner.get(ownerKey(owner, lo), hi);
    if (found === NONE || this.#rows.owner(found) !== owner) return NONE;
    return this.#sequence[2 * found] === lo && this.#sequence[2 * found + 1] === hi ? found : NONE;
  }

  #follows(before: number, row: number): boolean {
    const rows = this.#rows;
    const { lo, hi } = rows.hash(row, ROW.PARENT);
    return (
      rows.owner(row) === rows.owner(before) &&
      rows.tierNumber(row) === rows.tierNumber(before) &&
      rows.position(row) === rows.position(before) + 1 &&
      this.#sequence[2 * before] === lo &&
      this.#sequence[2 * before + 1] === hi
    );
  }
}

/** Owners share one table. */
function ownerKey(owner: number, lo: number): number {
  return lo ^ Math.imul(owner + 1, 0x9e3779b1);
}
