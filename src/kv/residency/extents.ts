// The resident blocks of all owners: runs of consecutive blocks of one chain, called extents. A sequence hash includes everything
// before it, so the last equal hash of an extent proves all blocks before it equal, and a walk compares extents, not blocks. Only the
// first block of an extent is in a table: any other comes behind the one before it, which is in place as long as it is, for a block
// that nobody holds any more keeps its place until its extent is empty or the chain goes on otherwise.
import type { HashPairs, U64 } from '../hashing/types.ts';
import { BLOCK, BLOCK_WORDS, changesIn, differ, EXTENT, HEAD_WORDS } from './extent-layout.ts';
import { HolderSets, NO_HOLDERS } from './holder-sets.ts';
import { mixPairs } from './pair-mix.ts';
import { RowTable } from './row-table.ts';
import { LARGEST_RUN, LARGEST_SIZE, RunArena, runSizeFor } from './run-arena.ts';
import { SEGMENT_MASK, SEGMENT_SHIFT } from './segmented-rows.ts';

const NONE = -1;
/** Slots of the table of first blocks are filled to this share at most: mostly it is asked for blocks that are not in it. */
const FIRSTS_LOAD = 0.5;

/** Blocks in extents. A block is known by the number of its row. */
export class Extents {
  readonly arena = new RunArena(BLOCK_WORDS, HEAD_WORDS);
  /** First blocks of extents by sequence hash. */
  readonly firsts = new RowTable(this.arena.rows, BLOCK.SEQUENCE, false, { bytes: 0 }, FIRSTS_LOAD);
  readonly sets = new HolderSets();
  readonly #heads = this.arena.heads;
  readonly #rows = this.arena.rows;
  /** Mixed hashes of the blocks of an extent. */
  readonly #mixes = new Int32Array(LARGEST_RUN);
  #live = 0;
  /** Now, in steps of some look-ups and stores: what extents are marked with, modulo 2^32. */
  now = 0;
  /** The largest size of new extents: less than the largest while arrays may not grow. */
  largest: number = LARGEST_SIZE;

  /** Blocks that somebody holds. */
  get live(): number {
    return this.#live;
  }

  /** Bytes of all arrays. */
  get bytes(): number {
    return this.arena.bytes + this.firsts.bytes + this.sets.bytes + this.#mixes.byteLength;
  }

  /** Bytes that so many runs of new blocks of a size, and new sets of holders, add at most. */
  growth(runs: number, size: number): number {
    return this.arena.growth(runs, size) + this.firsts.growth(runs) + this.sets.bytes;
  }

  /**
   * The block at `index` of a list of sequence hashes when it is the first of an extent, else −1. It may be one that nobody holds.
   * A block that is there although the one before it is not can only be such a one.
   */
  find(sequence: HashPairs, index: number): number {
    return this.firsts.find(sequence[2 * index]! | 0, sequence[2 * index + 1]! | 0);
  }

  /** The block at `index` of a list, when the one before it is `before` (−1 = not there), −1 when it is not there. */
  findAfter(before: number, sequence: HashPairs, index: number): number {
    if (before !== NONE) {
      const next = before + 1;
      if (next < this.endOf(this.arena.runOf(before)) && this.is(next, sequence, index)) return next;
    }
    return this.find(sequence, index);
  }

  /** The block at `index` of a chain of sequence hashes, −1 when it is not there. */
  locate(sequence: HashPairs, index: number): number {
    for (let back = 0; back < LARGEST_RUN && back <= index; back++) {
      const first = this.find(sequence, index - back);
      if (first === NONE) continue;
      const block = first + back;
      return block < this.endOf(this.arena.runOf(first)) && this.is(block, sequence, index) ? block : NONE;
    }
    return NONE;
  }

  /** Whether a block is the one at `index` of a list of sequence hashes. */
  is(block: number, sequence: HashPairs, index: number): boolean {
    const words = this.#rows.segments[block >>> SEGMENT_SHIFT]!;
    const at = (block & SEGMENT_MASK) * BLOCK_WORDS + BLOCK.SEQUENCE;
    return words[at] === (sequence[2 * index]! | 0) && words[at + 1] === (sequence[2 * index + 1]! | 0);
  }

  /** Number of the block behind an extent's last. */
  endOf(extent: number): number {
    const { segments, stride } = this.#heads;
    const words = segments[extent >>> SEGMENT_SHIFT]!;
    const at = (extent & SEGMENT_MASK) * stride;
    return words[at + EXTENT.BASE]! + words[at + EXTENT.USED]!;
  }

  /** Number of the set of owners that hold a block. */
  holdersOf(block: number): number {
    return this.#rows.get(block, BLOCK.HOLDERS);
  }

  /** How long ago a look-up last went through an extent, in steps of `now`. */
  ageOf(extent: number): number {
    return (this.now - this.#heads.get(extent, EXTENT.MATCHED)) >>> 0;
  }

  /** The extent that goes on where an extent ends, −1 when none is known. */
  after(extent: number): number {
    const heads = this.#heads;
    const block = heads.get(extent, EXTENT.NEXT);
    if (block === NONE) return NONE;
    const next = this.arena.runOf(block);
    const last = this.endOf(extent) - 1;
    const used = heads.get(extent, EXTENT.USED);
    const follows =
      heads.get(next, EXTENT.BASE) === block &&
      heads.get(next, EXTENT.USED) > 0 &&
      heads.get(next, EXTENT.POSITION) === heads.get(extent, EXTENT.POSITION) + used &&
      heads.get(next, EXTENT.PARENT) === this.#rows.get(last, BLOCK.SEQUENCE) &&
      heads.get(next, EXTENT.PARENT + 1) === this.#rows.get(last, BLOCK.SEQUENCE + 1);
    return follows ? next : NONE;
  }

  /** 0-based place of a block in its chain. */
  positionOf(block: number): number {
    const extent = this.arena.runOf(block);
    return this.#heads.get(extent, EXTENT.POSITION) + block - this.arena.baseOf(extent);
  }

  /** A hash of a block, by its place in the row. */
  hashOf(block: number, word: number): U64 {
    return { lo: this.#rows.get(block, word) >>> 0, hi: this.#rows.get(block, word + 1) >>> 0 };
  }

  /** Sequence hash of the block before a block, null for the first of a chain. */
  parentOf(block: number): U64 | null {
    const extent = this.arena.runOf(block);
    if (block > this.arena.baseOf(extent)) return this.hashOf(block - 1, BLOCK.SEQUENCE);
    if (this.#heads.get(extent, EXTENT.POSITION) === 0) return null;
    const lo = this.#heads.get(extent, EXTENT.PARENT);
    return { lo: lo >>> 0, hi: this.#heads.get(extent, EXTENT.PARENT + 1) >>> 0 };
  }

  /** How many of up to `most` blocks of an extent from `block` on are those from `index` on of a list of sequence hashes. */
  matching(block: number, most: number, sequence: HashPairs, index: number): number {
    if (most <= 0) return 0;
    if (this.is(block + most - 1, sequence, index + most - 1)) return most;
    // An equal hash proves all before it, an unequal one disproves all behind it.
    let equal = 0;
    let unequal = most - 1;
    while (equal < unequal) {
      const middle = (equal + unequal) >> 1;
      if (this.is(block + middle, sequence, index + middle)) equal = middle + 1;
      else unequal = middle;
    }
    return equal;
  }

  /**
   * A new block that nobody holds yet, the one at `index` of a run of a chain: behind `before` (−1 = at the root) in its extent
   * when there is room, else in a new one.
   * @param more blocks of the run from this one on, to size a new extent.
   */
  add(local: HashPairs, sequence: HashPairs, index: number, before: number, more: number): number {
    const block = this.#placeAfter(before, more);
    this.#write(block, local, sequence, index);
    if (block === this.arena.baseOf(this.arena.runOf(block))) this.firsts.insert(block);
    return block;
  }

  /** A new block that nobody holds yet, at this place of a chain, when the one before it is not there. */
  addApart(local: HashPairs, sequence: HashPairs, position: number, parent: U64 | null): number {
    const block = this.#openAt(position, parent?.lo ?? 0, parent?.hi ?? 0, runSizeFor(1), this.now);
    this.#write(block, local, sequence, 0);
    this.firsts.insert(block);
    return block;
  }

  /**
   * More new blocks behind one just added, as long as its extent has room and they are not there already.
   * @param block the one at `index` of a run of a chain of `end` blocks.
   * @returns how many there are from `block` on.
   */
  extend(local: HashPairs, sequence: HashPairs, index: number, end: number, block: number): number {
    const extent = this.arena.runOf(block);
    const heads = this.#heads.segments[extent >>> SEGMENT_SHIFT]!;
    const used = (extent & SEGMENT_MASK) * HEAD_WORDS + EXTENT.USED;
    const room = Math.min(this.arena.rowsOf(extent) - heads[used]!, end - index - 1);
    const more = this.#missing(sequence, index + 1, room);
    for (let at = 1; at <= more; at++) this.#write(block + at, local, sequence, index + at);
    heads[used]! += more;
    return more + 1;
  }

  /**
   * Sets the tiers (0: none) on which an owner holds each of a run of blocks of an extent: all on other tiers before. An extent without
   * held blocks is given back.
   */
  setRun(block: number, run: number, owner: number, tiers: number): void {
    const words = this.#rows.segments[block >>> SEGMENT_SHIFT]!;
    const extent = this.arena.runOf(block);
    const heads = this.#heads.segments[extent >>> SEGMENT_SHIFT]!;
    const head = (extent & SEGMENT_MASK) * HEAD_WORDS;
    const offset = block - heads[head + EXTENT.BASE]!;
    const start = (block & SEGMENT_MASK) * BLOCK_WORDS + BLOCK.HOLDERS;
    const end = start + run * BLOCK_WORDS;
    const from = offset === 0 ? start : start - BLOCK_WORDS;
    const to = offset + run < heads[head + EXTENT.USED]! ? end + BLOCK_WORDS : end;
    let changes = -changesIn(words, from, to);
    let live = 0;
    for (let at = start; at < end; ) {
      const old = words[at]!;
      const first = at;
      while (at < end && words[at] === old) at += BLOCK_WORDS;
      const set = this.sets.move(old, owner, tiers, (at - first) / BLOCK_WORDS);
      for (let word = first; word < at; word += BLOCK_WORDS) words[word] = set;
      if (old === NO_HOLDERS) live += (at - first) / BLOCK_WORDS;
      if (set === NO_HOLDERS) live -= (at - first) / BLOCK_WORDS;
    }
    changes += changesIn(words, from, to);
    heads[head + EXTENT.CHANGES]! += changes;
    heads[head + EXTENT.LIVE]! += live;
    this.#live += live;
    if (heads[head + EXTENT.LIVE] === 0) this.#drop(extent);
  }

  /** Sets the tiers on which an owner holds a block (0: none). An extent without held blocks is given back. */
  setTiers(block: number, owner: number, tiers: number): void {
    const words = this.#rows.segments[block >>> SEGMENT_SHIFT]!;
    const at = (block & SEGMENT_MASK) * BLOCK_WORDS + BLOCK.HOLDERS;
    const old = words[at]!;
    const set = this.sets.move(old, owner, tiers);
    words[at] = set;
    const extent = this.arena.runOf(block);
    const heads = this.#heads.segments[extent >>> SEGMENT_SHIFT]!;
    const head = (extent & SEGMENT_MASK) * HEAD_WORDS;
    const offset = block - heads[head + EXTENT.BASE]!;
    let changes = 0;
    // Rows of an extent lie in one segment: pages do not cross segments.
    if (offset > 0) changes += differ(words[at - BLOCK_WORDS]!, set) - differ(words[at - BLOCK_WORDS]!, old);
    if (offset + 1 < heads[head + EXTENT.USED]!) {
      changes += differ(words[at + BLOCK_WORDS]!, set) - differ(words[at + BLOCK_WORDS]!, old);
    }
    heads[head + EXTENT.CHANGES]! += changes;
    if (old === NO_HOLDERS) {
      if (set === NO_HOLDERS) return;
      heads[head + EXTENT.LIVE]!++;
      this.#live++;
    } else if (set === NO_HOLDERS) {
      this.#live--;
      if (--heads[head + EXTENT.LIVE]! === 0) this.#drop(extent);
    }
  }

  /** How many of `most` blocks from `index` on come before one that is the first of an extent. */
  #missing(sequence: HashPairs, index: number, most: number): number {
    const { firsts } = this;
    const mixes = this.#mixes;
    mixPairs(sequence, index, most, mixes);
    firsts.touch(mixes, most);
    for (let i = 0; i < most; i++) {
      const at = 2 * (index + i);
      if (firsts.findMixed(sequence[at]! | 0, sequence[at + 1]! | 0, mixes[i]!) !== NONE) return i;
    }
    return most;
  }

  #write(block: number, local: HashPairs, sequence: HashPairs, index: number): void {
    const words = this.#rows.segments[block >>> SEGMENT_SHIFT]!;
    const at = (block & SEGMENT_MASK) * BLOCK_WORDS;
    words[at + BLOCK.SEQUENCE] = sequence[2 * index]!;
    words[at + BLOCK.SEQUENCE + 1] = sequence[2 * index + 1]!;
    words[at + BLOCK.HOLDERS] = NO_HOLDERS;
    words[at + BLOCK.LOCAL] = local[2 * index]!;
    words[at + BLOCK.LOCAL + 1] = local[2 * index + 1]!;
  }

  #placeAfter(before: number, more: number): number {
    if (before === NONE) return this.#open(NONE, runSizeFor(more));
    const extent = this.arena.runOf(before);
    const { segments } = this.#heads;
    const heads = segments[extent >>> SEGMENT_SHIFT]!;
    const head = (extent & SEGMENT_MASK) * HEAD_WORDS;
    const base = heads[head + EXTENT.BASE]!;
    const offset = before - base;
    if (offset + 1 < heads[head + EXTENT.USED]!) {
      if (!this.#cut(extent, offset + 1)) return this.#open(before, runSizeFor(more));
    }
    const rows = this.arena.rowsOf(extent);
    const used = heads[head + EXTENT.USED]!;
    if (used < rows) {
      heads[head + EXTENT.USED] = used + 1;
      // The new block has no holders; the one before it has, unless it was just added too.
      heads[head + EXTENT.CHANGES]! += differ(this.holdersOf(before), NO_HOLDERS);
      return base + used;
    }
    // A chain that filled an extent likely goes on: its next one is not smaller, and larger than the smallest.
    const size = rows === 4 ? 1 : rows === 16 || more > 4 ? 2 : 1;
    return this.#open(before, Math.max(runSizeFor(more), size));
  }

  /** An extent with one block, behind `before`. */
  #open(before: number, size: number): number {
    if (before === NONE) return this.#openAt(0, 0, 0, size, this.now);
    const lo = this.#rows.get(before, BLOCK.SEQUENCE);
    const hi = this.#rows.get(before, BLOCK.SEQUENCE + 1);
    const above = this.arena.runOf(before);
    const matched = this.#heads.get(above, EXTENT.MATCHED);
    const base = this.#openAt(this.positionOf(before) + 1, lo, hi, size, matched);
    if (before + 1 === this.endOf(above)) this.#heads.set(above, EXTENT.NEXT, base);
    return base;
  }

  /** An extent with one block, at this place of its chain; the halves are those of the sequence hash before it. */
  #openAt(position: number, parentLo: number, parentHi: number, size: number, matched: number): number {
    const extent = this.arena.take(Math.min(size, this.largest), true);
    const heads = this.#heads;
    heads.set(extent, EXTENT.NEXT, NONE);
    heads.set(extent, EXTENT.USED, 1);
    heads.set(extent, EXTENT.LIVE, 0);
    heads.set(extent, EXTENT.CHANGES, 0);
    heads.set(extent, EXTENT.POSITION, position);
    heads.set(extent, EXTENT.SWEPT, 0);
    heads.set(extent, EXTENT.MATCHED, matched);
    heads.set(extent, EXTENT.PARENT, parentLo);
    heads.set(extent, EXTENT.PARENT + 1, parentHi);
    return heads.get(extent, EXTENT.BASE);
  }

  /** Takes an extent's blocks from `offset` on away when nobody holds any; whether that is so. */
  #cut(extent: number, offset: number): boolean {
    const base = this.arena.baseOf(extent);
    const end = this.endOf(extent);
    for (let block = base + offset; block < end; block++) {
      if (this.holdersOf(block) !== NO_HOLDERS) return false;
    }
    const changes = this.#heads.get(extent, EXTENT.CHANGES);
    this.#heads.set(extent, EXTENT.CHANGES, changes - differ(this.holdersOf(base + offset - 1), NO_HOLDERS));
    this.#heads.set(extent, EXTENT.USED, offset);
    return true;
  }

  #drop(extent: number): void {
    this.firsts.delete(this.arena.baseOf(extent));
    this.#heads.set(extent, EXTENT.USED, 0);
    this.arena.give(extent);
  }
}
