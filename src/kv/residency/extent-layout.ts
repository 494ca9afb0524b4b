// How blocks and the headers of extents lie in their words.
import { RUN_BASE, RUN_OWN } from './run-arena.ts';

/** Words of a block; hashes take two (lo, hi). */
export const BLOCK = { SEQUENCE: 0, HOLDERS: 2, LOCAL: 3 } as const;
/** Words per block. */
export const BLOCK_WORDS = 5;

/** Words of an extent's header. */
export const EXTENT = {
  /** Number of its first block. */
  BASE: RUN_BASE,
  /** Block that followed its last one when last seen; a guess, −1 for none. */
  NEXT: RUN_OWN,
  /** Blocks in it, 0 once it is given back. */
  USED: 2,
  /** Blocks in it that somebody holds. */
  LIVE: 3,
  /** Neighbours in it with different holders: 0 = all blocks have the same. */
  CHANGES: 4,
  /** Place of its first block in the chain, 0-based. */
  POSITION: 5,
  /** Sequence hash of the block before; meaningless at position 0. */
  PARENT: 6,
  /** The round of clears it was last freed of. */
  SWEPT: 8,
  /** When a look-up last went through it. A new extent has the time of the one it goes on, so that none is newer than that one. */
  MATCHED: 9,
} as const;
/** Words per header. */
export const HEAD_WORDS = 10;

/** 1 where two sets differ, else 0. */
export function differ(a: number, b: number): number {
  return a === b ? 0 : 1;
}

/** Neighbours that differ among holders at every block from word `from` to word `to`. */
export function changesIn(words: Int32Array, from: number, to: number): number {
  let changes = 0;
  for (let at = from + BLOCK_WORDS; at < to; at += BLOCK_WORDS) {
    if (words[at] !== words[at - BLOCK_WORDS]) changes++;
  }
  return changes;
}
