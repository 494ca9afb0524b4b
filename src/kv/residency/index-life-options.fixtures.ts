// How a random life of a prefix index is led, and what happened in it.
import type { LifeRoads } from './index-roads.fixtures.ts';

/** How a life is led. */
export interface IndexLifeOptions {
  readonly seed: number;
  readonly operations: number;
  /** Owners, at most 70. */
  readonly owners: number;
  /** Blocks of the longest chain. */
  readonly depth: number;
  /** Whether the index counts stores. */
  readonly countStores: boolean;
  /** Whether the index has a cap, so that it may evict and a copy of it may lack blocks. */
  readonly isCapped?: boolean;
  /** Operations between two snapshots on average; absent = none are taken. */
  readonly copyEvery?: number;
  /** Which way events take; absent = straight to index and model. */
  readonly roads?: LifeRoads;
  /** Pieces of clears that the index left for later; some are done now and then. */
  readonly pieces?: (() => void)[];
  /** Names that the index evicted and the model was not yet told of. */
  readonly evicted?: { readonly owner: number; readonly external: bigint }[];
  /** Called now and then with how many operations are done. */
  readonly progress?: (done: number) => void;
}

/** What happened in a life, so that it can be seen that all of it did. */
export interface IndexLifeTally {
  operations: number;
  stores: number;
  /** Stores with blocks that their owner held already on that tier. */
  duplicates: number;
  removes: number;
  /** Removes that left blocks behind them: the chain has a hole. */
  middleRemoves: number;
  unknownNames: number;
  repeatedNames: number;
  tierMoves: number;
  clears: number;
  reboundSlots: number;
  lostWorkers: number;
  evicted: number;
  /** Stores that an index with a cap found no room for, however much it evicted. */
  refused: number;
  snapshots: number;
  /** Snapshots that the life went on from. */
  takenUp: number;
  /** Rows that a full index left out of a snapshot. */
  rowsLeft: number;
  /** Stores that waited for their parent, and blocks that were stored when it came. */
  waited: number;
  repaired: number;
}

/** Before anything happened. */
export const noTally = (): IndexLifeTally => ({
  operations: 0,
  stores: 0,
  duplicates: 0,
  removes: 0,
  middleRemoves: 0,
  unknownNames: 0,
  repeatedNames: 0,
  tierMoves: 0,
  clears: 0,
  reboundSlots: 0,
  lostWorkers: 0,
  evicted: 0,
  refused: 0,
  snapshots: 0,
  takenUp: 0,
  rowsLeft: 0,
  waited: 0,
  repaired: 0,
});

/** A slot per owner, far apart. */
export const slotOf = (owner: number): number => owner * 936;

/** What differs, in words. */
export class IndexDiffers extends Error {}
