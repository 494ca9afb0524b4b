// Where else the blocks of a prompt lie, as a hint policy sees it. All hashes are the source's own.
import type { WorkerRank } from './ids.ts';

/** A rank that holds leading blocks of the prompt and can be asked for them. */
export interface KvCopyOwner {
  readonly source: WorkerRank;
  /** Leading blocks on its device tier. */
  readonly prefixBlocks: number;
}

/** What copies over a link took lately, as engines report them; waits for other copies that share the link are part of it. */
export interface MeasuredLink {
  /** Ms of a copy whatever its size. */
  readonly latencyMs: number;
  /** Ms per block. */
  readonly blockMs: number;
  /** 0 to 1: more the more copies were measured and the better they fit; halved with every minute without one. */
  readonly confidence: number;
}

/**
 * How long a copy takes: as was measured, the more of it the surer that is, and for the rest as is stated; a mean of logarithms.
 * @param statedMs what it takes where nothing was measured, 1e-9 to 1e12; 0 = no time, whatever was measured.
 * @returns ms
 * @example
 * const ms = expectedCopyMs(copy.link, copy.additionalBlocks, 3 + 0.2 * copy.additionalBlocks);
 */
export function expectedCopyMs(link: MeasuredLink | null, blocks: number, statedMs: number): number {
  if (link === null || statedMs === 0) return statedMs;
  return statedMs * Math.exp(link.confidence * Math.log((link.latencyMs + blocks * link.blockMs) / statedMs));
}

/** A copy that could be made. */
export interface KvCopy extends KvCopyOwner {
  /** Blocks the booked rank would gain; at least 1. */
  readonly additionalBlocks: number;
  /** Where the source is asked for blocks. */
  readonly controlEndpoint: string;
  /** The source's hashes of blocks 0 … prefixBlocks − 1 of the prompt; a fresh array. */
  readonly blockHashes: BigUint64Array;
  /** What was measured between source and booked rank; null = no engine has reported on such a copy. */
  readonly link: MeasuredLink | null;
}

/** The copies possible for one booking. May be read only while `buildHints` runs. */
export interface KvCopyLocations {
  /** Every rank that may serve as a source, whatever it would add; longest first. */
  readonly owners: readonly KvCopyOwner[];
  /** Device and host blocks the booked rank holds itself. */
  readonly localPrefixBlocks: number;
  /**
   * A source that adds at least `minAdditional` blocks beyond {@link localPrefixBlocks}: of those within 1/16 of the longest prefix
   * the one with the fewest requests in flight, then the longest, then the smallest (worker id, rank); null when there is none.
   * @param minAdditional a number from 0; 0 asks for 1
   * @throws PointsmanError PM_PLUGIN_INVALID when it is anything else, NaN included.
   */
  bestSource(minAdditional: number): KvCopy | null;
}

/** A copy that selection credited and one hint policy must send; at hint time the host named its source and that one's hashes. */
export type CommittedKvCopy = KvCopy;
