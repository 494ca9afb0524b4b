// The session prefix index said as plainly as possible: Maps of objects, every question answered by walking whole paths. It is what the
// real index must equal, and it says what the interface means where words leave doubt.
import type { HashPairs, U64 } from '../hashing/types.ts';
import { toBigUint64Array, u64FromBigInt, u64ToBigInt } from '../hashing/u64.ts';
import type { LineageLimits, LineageOutcome, SessionKey, SessionLineageIndex } from './types.ts';

interface NaiveSession {
  usedAt: number;
  /** Frontiers by owner, the oldest first. */
  readonly frontiers: Map<number, bigint[]>;
}

/** An index for tests: slow, small and obviously right. */
export class NaiveLineage implements SessionLineageIndex {
  /** Parent by block. */
  readonly parents = new Map<bigint, bigint | null>();
  /** Sessions, the one unused for longest first. */
  readonly sessions = new Map<SessionKey, NaiveSession>();
  readonly #limits: LineageLimits;
  readonly #now: () => number;

  constructor(now: () => number = () => 0, limits: LineageLimits = {}) {
    this.#now = now;
    this.#limits = limits;
  }

  match(session: SessionKey, owner: number, chain: HashPairs): LineageOutcome {
    return this.#update(session, owner, null, [...toBigUint64Array(chain)], false);
  }

  store(session: SessionKey, owner: number, parent: U64 | null, hashes: HashPairs): LineageOutcome {
    const before = parent === null ? null : u64ToBigInt(parent);
    return this.#update(session, owner, before, [...toBigUint64Array(hashes)], true);
  }

  remove(owner: number, hashes: HashPairs): number {
    this.expire();
    const removed = new Set(toBigUint64Array(hashes));
    let moved = 0;
    for (const session of this.sessions.values()) {
      const left: bigint[] = [];
      for (const frontier of session.frontiers.get(owner) ?? []) {
        const path = this.path(frontier);
        const at = path.findIndex((block) => removed.has(block));
        if (at >= 0) moved++;
        const stays = at < 0 ? frontier : path[at - 1];
        if (stays !== undefined) left.push(stays);
      }
      session.frontiers.set(owner, left);
    }
    this.#reduceAll();
    return moved;
  }

  clear(owner: number): number {
    this.expire();
    let gone = 0;
    for (const session of this.sessions.values()) {
      gone += session.frontiers.get(owner)?.length ?? 0;
      session.frontiers.delete(owner);
    }
    this.#reduceAll();
    return gone;
  }

  finish(session: SessionKey): boolean {
    this.expire();
    return this.sessions.delete(session);
  }

  expire(): void {
    const { timeToLiveMs } = this.#limits;
    if (timeToLiveMs === null || timeToLiveMs === undefined) return;
    for (const [key, { usedAt }] of this.sessions)
      if (this.#now() - usedAt >= timeToLiveMs) this.sessions.delete(key);
  }

  cleanup(): void {
    const needed = new Set<bigint>();
    for (const { frontiers } of this.sessions.values())
      for (const list of frontiers.values())
        for (const frontier of list) for (const block of this.path(frontier)) needed.add(block);
    for (const block of this.parents.keys()) if (!needed.has(block)) this.parents.delete(block);
  }

  /** From the root to a block. */
  path(block: bigint): bigint[] {
    const path: bigint[] = [];
    for (let x: bigint | null = block; x !== null; x = this.parents.get(x) ?? null) path.unshift(x);
    return path;
  }

  paths(session: SessionKey, owner: number, anchor: bigint | null = null): bigint[][] | 'unknown-anchor' {
    if (anchor !== null && !this.parents.has(anchor)) return 'unknown-anchor';
    const frontiers = this.sessions.get(session)?.frontiers.get(owner) ?? [];
    const paths = frontiers.map((frontier) => this.path(frontier));
    if (anchor === null) return paths;
    return paths.filter((path) => path.includes(anchor)).map((path) => path.slice(path.indexOf(anchor)));
  }

  uniqueBlocks(session: SessionKey, owner: number): Set<bigint> {
    const frontiers = this.sessions.get(session)?.frontiers.get(owner) ?? [];
    return new Set(frontiers.flatMap((frontier) => this.path(frontier)));
  }

  exclusiveBlocks(session: SessionKey, owner: number): Set<bigint> {
    const blocks = this.uniqueBlocks(session, owner);
    for (const other of this.sessions.keys())
      if (other !== session) for (const block of this.uniqueBlocks(other, owner)) blocks.delete(block);
    return blocks;
  }

  #update(
    key: SessionKey,
    owner: number,
    parent: bigint | null,
    hashes: readonly bigint[],
    isAnchored: boolean,
  ): LineageOutcome {
    this.expire();
    const last = hashes.at(-1);
    if (last === undefined) return { kind: 'unchanged' };
    const { maxChain = Number.POSITIVE_INFINITY, maxNodes = Number.POSITIVE_INFINITY } = this.#limits;
    if (hashes.length > Math.min(maxChain, maxNodes)) return { kind: 'too-long', blocks: hashes.length };
    const problem = this.#problem(parent, hashes, isAnchored);
    if (problem !== null) return problem;
    if (parent !== null && !this.parents.has(parent)) this.parents.set(parent, null);
    let before = parent;
    for (const block of hashes) {
      if ((this.parents.get(block) ?? null) === null) this.parents.set(block, before);
      before = block;
    }
    const session = this.sessions.get(key) ?? { usedAt: 0, frontiers: new Map<number, bigint[]>() };
    session.usedAt = this.#now();
    this.sessions.delete(key);
    this.sessions.set(key, session);
    // A graft may have put frontiers of any session behind others.
    this.#reduceAll(key);
    const frontiers = session.frontiers.get(owner) ?? [];
    const advanced = !frontiers.some((frontier) => this.path(frontier).includes(last));
    if (advanced) {
      const deeper = this.path(last);
      const kept = frontiers.filter((frontier) => !deeper.includes(frontier));
      kept.push(last);
      if (kept.length > (this.#limits.maxFrontiers ?? Number.POSITIVE_INFINITY)) kept.shift();
      session.frontiers.set(owner, kept);
    }
    this.#keepWithinCaps();
    return { kind: advanced ? 'advanced' : 'unchanged' };
  }

  #problem(parent: bigint | null, hashes: readonly bigint[], isAnchored: boolean): LineageOutcome | null {
    const first = hashes[0]!;
    const head = isAnchored ? parent : (this.parents.get(first) ?? null);
    const before = new Set(head === null ? [] : this.parents.has(head) ? this.path(head) : [head]);
    let expected = parent;
    let isAwaited = false;
    for (const [i, block] of hashes.entries()) {
      if (before.has(block)) return { kind: 'cyclic-parent', block: u64FromBigInt(block) };
      before.add(block);
      const itsParent = this.parents.get(block);
      if (itsParent === null) isAwaited = true;
      const isClaimed = i > 0 || isAnchored;
      if (itsParent !== null && itsParent !== undefined && isClaimed && itsParent !== expected)
        return { kind: 'conflicting-parent', block: u64FromBigInt(block) };
      expected = block;
    }
    if (parent === null || this.parents.has(parent) || isAwaited) return null;
    return { kind: 'unknown-parent', parent: u64FromBigInt(parent) };
  }

  /** Leaves of each pair's frontiers the deepest, of equal ones the newest; pairs and sessions without any go. */
  #reduceAll(spared?: SessionKey): void {
    for (const [key, { frontiers }] of this.sessions) {
      for (const [owner, list] of frontiers) {
        const left = list.filter((frontier, i) => {
          const others = list.filter((other) => other !== frontier);
          if (others.some((other) => this.path(other).includes(frontier))) return false;
          return list.lastIndexOf(frontier) === i;
        });
        if (left.length === 0) frontiers.delete(owner);
        else frontiers.set(owner, left);
      }
      if (frontiers.size === 0 && key !== spared) this.sessions.delete(key);
    }
  }

  #keepWithinCaps(): void {
    const { maxNodes = Number.POSITIVE_INFINITY, maxSessions = Number.POSITIVE_INFINITY } = this.#limits;
    while (this.sessions.size > maxSessions) this.#evict();
    if (this.parents.size > maxNodes) this.cleanup();
    while (this.parents.size > maxNodes) {
      this.#evict();
      this.cleanup();
    }
  }

  #evict(): void {
    const [oldest] = this.sessions.keys();
    if (oldest !== undefined) this.sessions.delete(oldest);
  }
}
