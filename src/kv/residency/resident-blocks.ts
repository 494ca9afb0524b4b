// The resident blocks of all owners by sequence hash. A block is a row of 32 bytes, half a cache line, so that a walk reads its
// hash and its holders at once. The parent is kept by sequence hash, not by row: it stays true when the parent is gone or comes
// back in another row.
import type { HashPairs, U64 } from '../hashing/types.ts';
import { HolderSets, NO_HOLDERS } from './holder-sets.ts';
import { RowArena } from './row-arena.ts';
import { RowTable } from './row-table.ts';

/** Words of a block row; hashes take two (lo, hi). */
export const BLOCK = {
  /** Sequence hash, the key of the block. */
  SEQUENCE: 0,
  /** Number of its set of holders. */
  HOLDERS: 2,
  /** Local hash. */
  LOCAL: 3,
  /** Sequence hash of the block before; meaningless at position 0. */
  PARENT: 5,
  /** 0-based place in the chain. */
  POSITION: 7,
} as const;

/** Words per block row. */
export const BLOCK_STRIDE = 8;

/** Blocks that somebody holds. */
export class ResidentBlocks {
  readonly rows = new RowArena(BLOCK_STRIDE);
  readonly bySequence = new RowTable(this.rows, BLOCK.SEQUENCE);
  readonly sets = new HolderSets();

  /** Bytes of all arrays. */
  get bytes(): number {
    return this.rows.bytes + this.bySequence.bytes + this.sets.bytes;
  }

  /** The block at `index` of a list of sequence hashes, −1 when nobody holds it. */
  find(sequence: HashPairs, index: number): number {
    return this.bySequence.find(sequence[2 * index]! | 0, sequence[2 * index + 1]! | 0);
  }

  /**
   * The same, when the block before it in the list is `before`. Blocks of an event lie row by row, so the next row is tried first:
   * a walk along one event reads memory in order and needs the table only where chains fork or rows were reused.
   */
  findAfter(before: number, sequence: HashPairs, index: number): number {
    const row = (before + 1) * BLOCK_STRIDE;
    const words = this.rows.words;
    if (
      row < words.length &&
      words[row + BLOCK.SEQUENCE] === (sequence[2 * index]! | 0) &&
      words[row + BLOCK.SEQUENCE + 1] === (sequence[2 * index + 1]! | 0) &&
      // A row given back keeps some of its words, but nobody holds it.
      words[row + BLOCK.HOLDERS] !== NO_HOLDERS
    ) {
      return before + 1;
    }
    return this.find(sequence, index);
  }

  /** Whether a block is the one at `index` of a list of sequence hashes. */
  is(block: number, sequence: HashPairs, index: number): boolean {
    const row = block * BLOCK_STRIDE + BLOCK.SEQUENCE;
    const words = this.rows.words;
    return words[row] === (sequence[2 * index]! | 0) && words[row + 1] === (sequence[2 * index + 1]! | 0);
  }

  /** 0-based place of a block in its chain. */
  positionOf(block: number): number {
    return this.rows.words[block * BLOCK_STRIDE + BLOCK.POSITION]!;
  }

  /** A hash of a block, by its place in the row. */
  hashOf(block: number, word: number): U64 {
    const at = block * BLOCK_STRIDE + word;
    return { lo: this.rows.words[at]! >>> 0, hi: this.rows.words[at + 1]! >>> 0 };
  }

  /** Makes room for `more` new blocks, so that as many `add`s cannot fail. */
  reserve(more: number): void {
    this.rows.reserve(more);
    this.bySequence.reserve(more);
  }

  /**
   * A new block, the one at `index` of a run of a chain; nobody holds it yet.
   * @param before sequence hash of the block before the run, null when the run starts its chain.
   */
  add(local: HashPairs, sequence: HashPairs, index: number, before: U64 | null, position: number): number {
    const block = this.rows.take();
    const words = this.rows.words;
    const row = block * BLOCK_STRIDE;
    words[row + BLOCK.SEQUENCE] = sequence[2 * index]!;
    words[row + BLOCK.SEQUENCE + 1] = sequence[2 * index + 1]!;
    words[row + BLOCK.HOLDERS] = NO_HOLDERS;
    words[row + BLOCK.LOCAL] = local[2 * index]!;
    words[row + BLOCK.LOCAL + 1] = local[2 * index + 1]!;
    words[row + BLOCK.PARENT] = index > 0 ? sequence[2 * index - 2]! : (before?.lo ?? 0);
    words[row + BLOCK.PARENT + 1] = index > 0 ? sequence[2 * index - 1]! : (before?.hi ?? 0);
    words[row + BLOCK.POSITION] = position;
    this.bySequence.insert(block);
    return block;
  }

  /** Sets the tiers on which an owner holds a block (0: none). A block that nobody holds any more is gone. */
  setTiers(block: number, owner: number, tiers: number): void {
    const row = block * BLOCK_STRIDE + BLOCK.HOLDERS;
    const set = this.sets.move(this.rows.words[row]!, owner, tiers);
    this.rows.words[row] = set;
    if (set !== NO_HOLDERS) return;
    this.bySequence.delete(block);
    this.rows.give(block);
  }
}
