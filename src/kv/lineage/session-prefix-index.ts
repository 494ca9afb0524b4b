// Which chains of blocks each session has on each owner: one forest of blocks for all, in it the deepest block of each chain by session and
// owner. These frontiers follow what owners hold on their devices; blocks without any stay until they are pruned.
import { type Clock, PointsmanError } from '../../plugin/index.ts';
import type { HashPairs, U64 } from '../hashing/types.ts';
import { requireWholePairs, u64ToBigInt } from '../hashing/u64.ts';
import { requireOwner } from '../residency/index-arguments.ts';
import type { OwnerSlot } from '../residency/types.ts';
import { FIRST, SIZE } from './frontier-pairs.ts';
import { NONE } from './lineage-forest.ts';
import { lineageLimits } from './lineage-limits.ts';
import { LineageState } from './lineage-state.ts';
import type {
  LineageBlock,
  LineageLimits,
  LineageNodeId,
  LineageOutcome,
  LineageStats,
  OwnerFrontier,
  SessionKey,
  SessionLineageIndex,
} from './types.ts';

const ADVANCED: LineageOutcome = Object.freeze({ kind: 'advanced' });
const UNCHANGED: LineageOutcome = Object.freeze({ kind: 'unchanged' });
/** Blocks that one change prunes at most while none has to go. */
const PRUNED_AT_ONCE = 1024;

/** Sessions, their frontiers, and the blocks between these and the roots. Semantics: those of the field's session-aware prefix indexer. */
export class SessionPrefixIndex implements SessionLineageIndex {
  readonly #limits: Required<LineageLimits>;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #state: LineageState;
  #cleanedAt: number;
  #evictedSessions = 0;
  #expiredSessions = 0;
  #evictedFrontiers = 0;

  /**
   * @param state what it works on, empty; tests look at it.
   * @throws PM_KV_ARGUMENT when a limit is out of range.
   */
  constructor(
    clock: Pick<Clock, 'now'>,
    limits: LineageLimits = {},
    state: LineageState = new LineageState(),
  ) {
    this.#limits = lineageLimits(limits);
    this.#clock = clock;
    this.#state = state;
    this.#cleanedAt = clock.now();
  }

  match(session: SessionKey, owner: OwnerSlot, chain: HashPairs): LineageOutcome {
    return this.#update(session, owner, null, chain, false);
  }

  store(session: SessionKey, owner: OwnerSlot, parent: U64 | null, hashes: HashPairs): LineageOutcome {
    return this.#update(session, owner, parent, hashes, true);
  }

  remove(owner: OwnerSlot, hashes: HashPairs): number {
    requireOwner(owner);
    requireWholePairs(hashes);
    this.#tidy();
    return this.#state.removal.apply(owner, hashes);
  }

  clear(owner: OwnerSlot, most: number = Number.POSITIVE_INFINITY): number {
    requireOwner(owner);
    this.#tidy();
    const { frontiers } = this.#state;
    let gone = 0;
    for (let pair = frontiers.pairs.firstOfOwner(owner); pair !== NONE && gone < most; ) {
      gone += frontiers.deletePair(pair);
      pair = frontiers.pairs.firstOfOwner(owner);
    }
    return gone;
  }

  finish(session: SessionKey): boolean {
    this.#tidy();
    const row = this.#state.sessions.find(session);
    if (row === NONE) return false;
    this.#forget(row);
    return true;
  }

  /** Forgets sessions whose time is over. Other changes do so too. Returns how many went. */
  expire(): number {
    const { timeToLiveMs } = this.#limits;
    if (timeToLiveMs === null) return 0;
    const { sessions } = this.#state;
    let expired = 0;
    for (let row = sessions.oldest; row !== NONE && this.#isOver(row); row = sessions.oldest) {
      this.#forget(row);
      expired++;
    }
    this.#expiredSessions += expired;
    return expired;
  }

  /** Prunes blocks that no session has, up to so many, default all. Returns how many went. */
  cleanup(most: number = Number.POSITIVE_INFINITY): number {
    return this.#state.forest.prune(most);
  }

  /** The block with a hash; null when no session has or had it. */
  nodeOf(hash: U64): LineageNodeId | null {
    const row = this.#state.forest.find(hash.lo, hash.hi);
    return row === NONE ? null : this.#state.forest.idOf(row);
  }

  /** A block; null when it is gone. */
  node(id: LineageNodeId): LineageBlock | null {
    return this.#state.blockOf(this.#state.forest.rowOf(id));
  }

  /** The last `most` blocks of the path to a block, itself the last; empty when it is gone. */
  pathTo(id: LineageNodeId, most: number): HashPairs {
    const { forest } = this.#state;
    const row = forest.rowOf(id);
    if (row === NONE) return new Uint32Array(0);
    const length = Math.min(most, forest.pathLength(row, NONE));
    const path = new Uint32Array(2 * length);
    forest.writePath(row, length, path);
    return path;
  }

  /** Every frontier of a session, in no order; none of one that is not known. */
  frontiers(session: SessionKey): OwnerFrontier[] {
    return this.#state.frontiersOf(this.#find(session));
  }

  /**
   * The path to each frontier of a session on an owner, first block first, in no order; the caller's to keep. With an anchor only those
   * through that block, from it on.
   * @throws PM_KV_LINEAGE_ANCHOR when the anchor is not known, whatever else is.
   */
  paths(session: SessionKey, owner: OwnerSlot, anchor: U64 | null = null): HashPairs[] {
    const paths: HashPairs[] = [];
    this.forEachPath(session, owner, anchor, (path) => void paths.push(path.slice()));
    return paths;
  }

  /** As `paths`, one after the other in an array that is written again for the next: copy what must stay. */
  forEachPath(
    session: SessionKey,
    owner: OwnerSlot,
    anchor: U64 | null,
    visit: (path: HashPairs) => void,
  ): void {
    const { blocks, forest } = this.#state;
    const row = anchor === null ? NONE : forest.find(anchor.lo, anchor.hi);
    if (anchor !== null && row === NONE) refuseAnchor(anchor);
    const pair = this.#pair(session, owner);
    if (pair !== NONE) blocks.forEachPath(pair, row, visit);
  }

  /** Every block of these paths once, none before its parent. */
  uniqueBlocks(session: SessionKey, owner: OwnerSlot): HashPairs {
    const pair = this.#pair(session, owner);
    return pair === NONE ? new Uint32Array(0) : this.#state.blocks.unique(pair);
  }

  /** Those of them that no path of another session on the owner has: they may be evicted without harm to others. */
  exclusiveBlocks(session: SessionKey, owner: OwnerSlot): HashPairs {
    const pair = this.#pair(session, owner);
    return pair === NONE ? new Uint32Array(0) : this.#state.blocks.exclusive(pair);
  }

  stats(): LineageStats {
    const { forest, frontiers, sessions } = this.#state;
    return {
      sessions: sessions.size,
      frontiers: frontiers.size,
      nodes: forest.size,
      usedBytes: this.#state.usedBytes,
      bytes: this.#state.bytes,
      evictedSessions: this.#evictedSessions,
      expiredSessions: this.#expiredSessions,
      evictedFrontiers: this.#evictedFrontiers,
    };
  }

  #update(
    session: SessionKey,
    owner: OwnerSlot,
    parent: U64 | null,
    hashes: HashPairs,
    isAnchored: boolean,
  ): LineageOutcome {
    requireOwner(owner);
    requireWholePairs(hashes);
    this.#tidy();
    const blocks = hashes.length >> 1;
    if (blocks === 0) return UNCHANGED;
    const { chain } = this.#state;
    if (blocks > Math.min(this.#limits.maxChain, this.#limits.maxNodes)) return { kind: 'too-long', blocks };
    const problem = chain.check(parent, hashes, isAnchored);
    if (problem !== null) return problem;
    const advanced = this.#advance(session, owner, chain.apply(parent, hashes));
    this.#keepWithinCaps();
    return advanced ? ADVANCED : UNCHANGED;
  }

  /** Makes a block a frontier unless one lies there or behind it. A use of the session in any case. */
  #advance(key: SessionKey, owner: OwnerSlot, node: number): boolean {
    const { antichain, frontiers, sessions } = this.#state;
    const { pairs } = frontiers;
    const now = this.#clock.now();
    let session = sessions.find(key);
    if (session === NONE) session = sessions.add(key, now);
    else sessions.touch(session, now);
    let pair = pairs.find(session, owner);
    if (pair === NONE) {
      pair = pairs.add(session, owner);
      frontiers.add(pair, node);
      return true;
    }
    if (antichain.covers(pair, node)) return false;
    const before = antichain.before(pair, node);
    frontiers.add(pair, node);
    if (before !== NONE) frontiers.delete(before);
    if (pairs.get(pair, SIZE) > this.#limits.maxFrontiers) {
      frontiers.delete(pairs.get(pair, FIRST));
      this.#evictedFrontiers++;
    }
    return true;
  }

  #keepWithinCaps(): void {
    const { forest, sessions } = this.#state;
    while (sessions.size > this.#limits.maxSessions) this.#evict();
    while (forest.size > this.#limits.maxNodes || this.#state.usedBytes > this.#limits.maxBytes) {
      if (forest.hasPrunable) forest.prune(PRUNED_AT_ONCE);
      else if (sessions.size > 0) this.#evict();
      else return;
    }
  }

  #evict(): void {
    this.#forget(this.#state.sessions.oldest);
    this.#evictedSessions++;
  }

  #forget(session: number): void {
    this.#state.forget(session);
  }

  /** Before each change: whose time is over goes, and when it is time for it, some of the blocks that no session has. */
  #tidy(): void {
    this.expire();
    const now = this.#clock.now();
    if (now - this.#cleanedAt < this.#limits.cleanupIntervalMs) return;
    this.#state.forest.prune(PRUNED_AT_ONCE);
    if (!this.#state.forest.hasPrunable) this.#cleanedAt = now;
  }

  #isOver(session: number): boolean {
    const { timeToLiveMs } = this.#limits;
    return timeToLiveMs !== null && this.#clock.now() - this.#state.sessions.usedAt(session) >= timeToLiveMs;
  }

  /** Row of a session that is known and whose time is not over. */
  #find(key: SessionKey): number {
    const row = this.#state.sessions.find(key);
    return row !== NONE && this.#isOver(row) ? NONE : row;
  }

  #pair(key: SessionKey, owner: OwnerSlot): number {
    const session = this.#find(key);
    return session === NONE ? NONE : this.#state.frontiers.pairs.find(session, owner);
  }
}

function refuseAnchor(anchor: U64): never {
  const hash = u64ToBigInt(anchor).toString();
  throw new PointsmanError(
    'PM_KV_LINEAGE_ANCHOR',
    `paths were asked for from block ${hash} on, but no session has it; ask nodeOf first, or leave the anchor out`,
    { details: { anchor: hash } },
  );
}
