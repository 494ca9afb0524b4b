// What sessions left behind in the engines' caches, as policies that declare `session-lineage` or `residency` see it. All hashes are
// the engines' own, as announced by the worker concerned.
import type { BlockHash, WorkerRank } from './ids.ts';

declare const nodeIdBrand: unique symbol;

/** Names a block in the tree of prompts; valid during the call. */
export type LineageNodeId = number & { readonly [nodeIdBrand]?: true };

/** A block with what comes before and after it. */
export interface LineageNode {
  readonly blockHash: BlockHash;
  /** Absent = the first block of a prompt. */
  readonly parent?: LineageNodeId;
  readonly children: readonly LineageNodeId[];
}

/** The deepest block of one chain of a session on a worker. */
export interface SessionFrontier {
  readonly worker: WorkerRank;
  readonly node: LineageNodeId;
}

/**
 * Which chains of blocks each session has on each worker. Only what has been settled: the match and the blocks of the request at hand
 * may be missing. A session that is not known is empty everywhere.
 */
export interface SessionLineage {
  /** The node of a hash; null when no session has it. */
  nodeOf(hash: BlockHash): LineageNodeId | null;
  /** A node; null when it is gone. */
  node(id: LineageNodeId): LineageNode | null;
  /** Every frontier of a session, in no order; a session that branched has several on one worker. */
  frontiers(sessionId: string): readonly SessionFrontier[];
  /**
   * One list of hashes per frontier of the session on the worker, the first block first. With an anchor only the paths through that
   * block, from it on.
   * @throws when the anchor is not known.
   */
  paths(sessionId: string, worker: WorkerRank, anchor?: BlockHash): readonly BigUint64Array[];
  /** Every block of these paths once, in an order in which none comes before its parent. */
  uniqueBlocks(sessionId: string, worker: WorkerRank): BigUint64Array;
  /**
   * Those of them that are on no path of another live session on the worker, so that evicting them harms none; none before its parent.
   * A session is live until its final request is over.
   */
  exclusiveBlocks(sessionId: string, worker: WorkerRank): BigUint64Array;
}

/** Where a block lies, the fastest first. */
export type StorageTier = 'device' | 'host' | 'disk' | 'external';

/** Which tier holds a block on a worker. */
export interface BlockResidency {
  /** The fastest tier of the rank that holds the block, by its own hash; null when none is known to. */
  tierOf(worker: WorkerRank, hash: BlockHash): StorageTier | null;
}
