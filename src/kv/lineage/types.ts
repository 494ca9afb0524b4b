// What the session prefix index takes and answers. Blocks are named by the router's sequence hashes, which stand for a block and all
// before it, so that a chain has one meaning on every worker; whoever shows them to a policy translates.
import type { HashPairs, U64 } from '../hashing/types.ts';
import type { OwnerSlot } from '../residency/types.ts';

declare const sessionKeyBrand: unique symbol;

/** A session within its partition and tenant, as `sessionKey` writes it. */
export type SessionKey = string & { readonly [sessionKeyBrand]: true };

/** Names a block in the index; a number given out once never stands for another block. */
export type LineageNodeId = number;

/**
 * What became of a match or store. `advanced` = the session has a frontier it did not have; `unchanged` = it had one there or deeper.
 * All others change nothing: `cyclic-parent` = the block is the parent, comes before it, or stands in the chain twice;
 * `conflicting-parent` = the block is known behind another one; `unknown-parent` = the parent is not known, and nothing in the chain
 * waits for one; `too-long` = more blocks than an update may have.
 */
export type LineageOutcome =
  | { readonly kind: 'advanced' }
  | { readonly kind: 'unchanged' }
  | { readonly kind: 'cyclic-parent'; readonly block: U64 }
  | { readonly kind: 'conflicting-parent'; readonly block: U64 }
  | { readonly kind: 'unknown-parent'; readonly parent: U64 }
  | { readonly kind: 'too-long'; readonly blocks: number };

/** A block and its place. */
export interface LineageBlock {
  readonly hash: U64;
  /** The block before it; null = none is known. */
  readonly parent: LineageNodeId | null;
  readonly children: readonly LineageNodeId[];
  /** How many (session, owner) pairs have it as a frontier. */
  readonly frontierRefs: number;
}

/** The deepest block of one chain of a session on an owner. */
export interface OwnerFrontier {
  readonly owner: OwnerSlot;
  readonly node: LineageNodeId;
}

/** Bounds of the index. */
export interface LineageLimits {
  /** Most sessions, 1 to 1,048,576; default 16,384, as in the original. The one without a match or store for longest goes. */
  readonly maxSessions?: number;
  /** Most frontiers of one session on one owner, 1 to 65,536; default 64. The oldest goes. */
  readonly maxFrontiers?: number;
  /** Most blocks, 1 to 8,388,608; default 2,097,152. Blocks of no session go first, then sessions without use for longest. */
  readonly maxNodes?: number;
  /** Most bytes of all that is in use, up to 536,870,912; default 134,217,728. What goes is as for `maxNodes`; arrays stay as large as they once were. */
  readonly maxBytes?: number;
  /** Most blocks of one match or store, 1 to 1,048,576; default 131,072: by so many the caps are passed while it is applied. */
  readonly maxChain?: number;
  /** A session is forgotten so long after its last match or store, ms; null, the default, = never. */
  readonly timeToLiveMs?: number | null;
  /** Blocks of no session are pruned once in so long, ms; default 300,000, as in the original. Under pressure of a cap they go at once. */
  readonly cleanupIntervalMs?: number;
}

/** Counts for gauges and tests. */
export interface LineageStats {
  readonly sessions: number;
  /** (Session, owner, block) frontiers. */
  readonly frontiers: number;
  readonly nodes: number;
  /** Bytes of all that is in use: what `maxBytes` bounds. */
  readonly usedBytes: number;
  /** Bytes of all arrays, and of session ids by estimate. */
  readonly bytes: number;
  /** Sessions that went because there were too many, or too many of their blocks. */
  readonly evictedSessions: number;
  /** Sessions that went because nothing was heard of them for long. */
  readonly expiredSessions: number;
  /** Frontiers that went because their session had too many on one owner. */
  readonly evictedFrontiers: number;
}

/** Which chains of blocks sessions have on which owners, and what changes that. All calls are synchronous. */
export interface SessionLineageIndex {
  /**
   * `owner` was found to hold this chain for the session, first block first. A chain that starts in the middle of a prompt is
   * one without a known beginning. An empty chain changes nothing.
   */
  match(session: SessionKey, owner: OwnerSlot, chain: HashPairs): LineageOutcome;
  /** The session made `owner` store these blocks behind `parent`; null = they begin a prompt. None change nothing. */
  store(session: SessionKey, owner: OwnerSlot, parent: U64 | null, hashes: HashPairs): LineageOutcome;
  /**
   * The owner holds these blocks no more: frontiers at or behind them recede to the block before the first of them, or go. Not a use
   * of the sessions concerned.
   * @returns how many frontiers were concerned.
   */
  remove(owner: OwnerSlot, hashes: HashPairs): number;
  /**
   * The owner holds nothing any more.
   * @param most frontiers that go at once, a few more where a session has several; default all. To be called again until fewer went.
   * @returns how many frontiers went.
   */
  clear(owner: OwnerSlot, most?: number): number;
  /** Forgets a session, as after its final request; whether it was known. */
  finish(session: SessionKey): boolean;
}
