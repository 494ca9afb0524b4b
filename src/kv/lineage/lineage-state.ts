// The parts of a session prefix index, put together: what one part changes in another is said here.
import { Antichain } from './antichain.ts';
import { ChainUpdate } from './chain-update.ts';
import { FIRST, SIZE } from './frontier-pairs.ts';
import { Frontiers } from './frontiers.ts';
import { FRONTIERS, LineageForest, NODE_BYTES, NONE } from './lineage-forest.ts';
import { OwnerPaths } from './owner-paths.ts';
import { Removal } from './removal.ts';
import { SessionBlocks } from './session-blocks.ts';
import { SessionTable } from './session-table.ts';
import type { LineageBlock, OwnerFrontier } from './types.ts';

/** Everything that an index holds. */
export class LineageState {
  readonly forest: LineageForest;
  readonly paths: OwnerPaths;
  readonly sessions: SessionTable;
  readonly frontiers: Frontiers;
  readonly antichain: Antichain;
  readonly chain: ChainUpdate;
  readonly removal: Removal;
  readonly blocks: SessionBlocks;

  /** @param forest an empty one. */
  constructor(forest: LineageForest = new LineageForest()) {
    this.forest = forest;
    this.paths = new OwnerPaths(forest);
    this.sessions = new SessionTable();
    this.frontiers = new Frontiers(forest, this.paths, this.sessions);
    this.antichain = new Antichain(forest, this.paths, this.frontiers);
    this.chain = new ChainUpdate(forest, (row) => this.#grafted(row));
    this.removal = new Removal(forest, this.paths, this.frontiers, this.antichain);
    this.blocks = new SessionBlocks(forest, this.paths, this.frontiers);
  }

  /** Bytes of what is in use. */
  get usedBytes(): number {
    const { forest, frontiers, paths, sessions } = this;
    return forest.size * NODE_BYTES + frontiers.usedBytes + paths.usedBytes + sessions.usedBytes;
  }

  /** Bytes of all arrays, and of sessions by estimate. */
  get bytes(): number {
    const { blocks, chain, forest, frontiers, paths, removal, sessions } = this;
    const scratch = blocks.bytes + chain.bytes + removal.bytes;
    return forest.bytes + frontiers.bytes + paths.bytes + sessions.bytes + scratch;
  }

  /** Takes all frontiers of a session out, and with the last one the session. */
  forget(session: number): void {
    const { frontiers, sessions } = this;
    const { pairs } = frontiers;
    for (let pair = sessions.firstPair(session); pair !== NONE; ) {
      const next = pairs.nextOfSession(pair);
      frontiers.deletePair(pair);
      pair = next;
    }
  }

  /** What is known of the block in a row, or null for NONE. */
  blockOf(row: number): LineageBlock | null {
    if (row === NONE) return null;
    const { forest, frontiers } = this;
    const parent = forest.parent(row);
    const children: number[] = [];
    for (let child = forest.firstChild(row); child !== NONE; child = forest.sibling(child))
      children.push(forest.idOf(child));
    let frontierRefs = 0;
    for (let f = forest.get(row, FRONTIERS); f !== NONE; f = frontiers.nextOfNode(f)) frontierRefs++;
    return {
      hash: { lo: forest.low(row), hi: forest.high(row) },
      parent: parent === NONE ? null : forest.idOf(parent),
      children,
      frontierRefs,
    };
  }

  /** Every frontier of a session; of NONE none. */
  frontiersOf(session: number): OwnerFrontier[] {
    const { forest, frontiers, sessions } = this;
    const { pairs } = frontiers;
    const found: OwnerFrontier[] = [];
    if (session === NONE) return found;
    for (let pair = sessions.firstPair(session); pair !== NONE; pair = pairs.nextOfSession(pair)) {
      for (let f = pairs.get(pair, FIRST); f !== NONE; f = frontiers.nextOfPair(f))
        found.push({ owner: pairs.owner(pair), node: forest.idOf(frontiers.nodeOf(f)) });
    }
    return found;
  }

  /** A block got a parent: paths go on through that, and frontiers before it may be said by those behind it. */
  #grafted(row: number): void {
    this.paths.grafted(row);
    const { antichain, forest, frontiers } = this;
    const pairs = new Set<number>();
    const below = [row];
    for (let x = below.pop(); x !== undefined; x = below.pop()) {
      for (let f = forest.get(x, FRONTIERS); f !== NONE; f = frontiers.nextOfNode(f)) {
        if (frontiers.pairs.get(frontiers.pairOf(f), SIZE) > 1) pairs.add(frontiers.pairOf(f));
      }
      for (let child = forest.firstChild(x); child !== NONE; child = forest.sibling(child)) below.push(child);
    }
    for (const pair of pairs) antichain.reduce(pair);
  }
}
