// Which of several sources of a copy is asked: of those that hold nearly the longest prefix the least loaded, so that one popular
// prefix does not make one worker serve everybody. For selection and for hints.
import type { OwnerSlot } from '../kv/index.ts';

/** A source is nearly as good as another when it lacks at most 1/16 of that one's prefix, rounded down: short prefixes must be equal. */
export const NEAR_TIE_SHARE = 16;

/** Requests in flight on a slot. */
export type SourceLoad = (slot: OwnerSlot) => number;

/** The shortest prefix that is nearly as good as one of `longest` blocks. */
export function nearTieFloor(longest: number): number {
  return longest - Math.floor(longest / NEAR_TIE_SHARE);
}

/** A rank with leading blocks of the prompt. */
export interface LoadedSource {
  readonly workerId: bigint;
  readonly rank: number;
  readonly prefixBlocks: number;
  readonly load: number;
}

/** Order of near-tied sources, the first to ask first: load, then longest prefix, then (worker id, rank). */
export function compareSources(a: LoadedSource, b: LoadedSource): number {
  if (a.load !== b.load) return a.load - b.load;
  return compareByLength(a, b);
}

/** Longest prefix first, then (worker id, rank). */
export function compareByLength(a: LoadedSource, b: LoadedSource): number {
  if (a.prefixBlocks !== b.prefixBlocks) return b.prefixBlocks - a.prefixBlocks;
  if (a.workerId !== b.workerId) return a.workerId < b.workerId ? -1 : 1;
  return a.rank - b.rank;
}

/** A source noted in place, so that a decision allocates nothing; slot −1 = none. */
export class NotedSource implements LoadedSource {
  slot: OwnerSlot = -1;
  workerId = 0n;
  rank = 0;
  prefixBlocks = 0;
  load = 0;

  clear(): void {
    this.slot = -1;
    this.prefixBlocks = 0;
  }

  note(slot: OwnerSlot, workerId: bigint, rank: number, prefixBlocks: number, load: number): void {
    this.slot = slot;
    this.workerId = workerId;
    this.rank = rank;
    this.prefixBlocks = prefixBlocks;
    this.load = load;
  }

  copy({ slot, workerId, rank, prefixBlocks, load }: NotedSource): void {
    this.note(slot, workerId, rank, prefixBlocks, load);
  }

  /** Takes the offer when it comes before what is noted. */
  offer(offered: NotedSource): boolean {
    if (this.slot >= 0 && compareSources(offered, this) >= 0) return false;
    this.copy(offered);
    return true;
  }
}

/** The first source and the first on another worker, so that a candidate can leave its own worker out. */
export class FirstTwoSources {
  readonly first = new NotedSource();
  /** Never on the worker of `first`. */
  readonly second = new NotedSource();

  clear(): void {
    this.first.clear();
    this.second.clear();
  }

  offer(offered: NotedSource): void {
    const { first, second } = this;
    if (first.slot >= 0 && compareSources(offered, first) >= 0) {
      if (offered.workerId !== first.workerId) second.offer(offered);
      return;
    }
    if (first.slot >= 0 && first.workerId !== offered.workerId) second.copy(first);
    first.copy(offered);
  }

  /** The first that is not on this worker; its slot is −1 when there is none. */
  besides(workerId: bigint): NotedSource {
    return this.first.workerId === workerId ? this.second : this.first;
  }
}
