// The walk of a prompt's chain through the extents. Every owner moves through the asked tiers from near to far and never back, so one
// pass gives device depth and the continuation on each further tier, exact also where a chain has holes. Work per extent is one
// compare of its last hash; holders are looked at only where they change, and owners touched only then.
import type { ClearedBlocks } from './cleared-blocks.ts';
import { BLOCK, BLOCK_WORDS, EXTENT } from './extent-layout.ts';
import type { Extents } from './extents.ts';
import { MatchRows } from './match-rows.ts';
import { SEGMENT_MASK, SEGMENT_SHIFT } from './segmented-rows.ts';
import type { PrefixMatch } from './types.ts';

const NONE = -1;

/** Walks chains; its result is reused by the next walk. */
export class ExtentWalk {
  readonly #extents: Extents;
  readonly #cleared: ClearedBlocks;
  readonly #rows: MatchRows;

  constructor(extents: Extents, cleared: ClearedBlocks) {
    this.#extents = extents;
    this.#cleared = cleared;
    this.#rows = new MatchRows(extents.sets);
  }

  /** Bytes of the reused arrays. */
  get bytes(): number {
    return this.#rows.bytes;
  }

  /** Longest prefix per owner over the tiers of `asked`. */
  walk(sequence: Uint32Array, asked: number, version: number): PrefixMatch {
    const rows = this.#rows;
    rows.start(asked, version);
    const blocks = sequence.length >> 1;
    if (blocks === 0 || asked === 0) return rows.result;
    const { arena } = this.#extents;
    const heads = arena.heads.segments;
    const headWords = arena.heads.stride;
    const isSwept = this.#cleared.isSwept;
    const { now } = this.#extents;
    let block = this.#extents.find(sequence, 0);
    let at = 0;
    while (block !== NONE) {
      const extent = arena.runOf(block);
      if (!isSwept) this.#cleared.sweepExtent(extent);
      const words = heads[extent >>> SEGMENT_SHIFT]!;
      const head = (extent & SEGMENT_MASK) * headWords;
      const end = words[head + EXTENT.BASE]! + words[head + EXTENT.USED]!;
      const run = this.#extents.matching(block, Math.min(end - block, blocks - at), sequence, at);
      // The block was a guess, and wrong, or the extent is gone with what was cleared.
      if (run === 0) {
        block = this.#extents.find(sequence, at);
        continue;
      }
      words[head + EXTENT.MATCHED] = now;
      const goesOn =
        words[head + EXTENT.CHANGES] === 0
          ? rows.take(this.#extents.holdersOf(block), run)
          : this.#takeEach(block, run);
      at += run;
      if (!goesOn || at === blocks) break;
      const guess = block + run === end ? words[head + EXTENT.NEXT]! : NONE;
      block = guess === NONE ? this.#extents.find(sequence, at) : guess;
    }
    rows.finish();
    return rows.result;
  }

  /** Takes blocks of an extent whose holders differ; whether any owner goes on. */
  #takeEach(block: number, run: number): boolean {
    const words = this.#extents.arena.rows.segments[block >>> SEGMENT_SHIFT]!;
    let word = (block & SEGMENT_MASK) * BLOCK_WORDS + BLOCK.HOLDERS;
    let set = words[word]!;
    let since = 0;
    for (let i = 1; i < run; i++) {
      word += BLOCK_WORDS;
      if (words[word] === set) continue;
      if (!this.#rows.take(set, i - since)) return false;
      set = words[word]!;
      since = i;
    }
    return this.#rows.take(set, run - since);
  }
}
