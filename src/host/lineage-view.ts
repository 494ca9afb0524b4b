// The session prefix index as policies see it: sessions of one partition and tenant, in the hashes of the engines concerned. The index
// names blocks by the router's hashes; what a worker calls them is asked of the prefix index, so that a block it holds no more ends a list.
import {
  type FollowedIndex,
  type HashPairs,
  hashAt,
  MOST_BEFORE,
  type OwnerSlot,
  type SessionPrefixIndex,
  type U64,
  u64FromBigInt,
} from '../kv/index.ts';
import {
  type BlockHash,
  type LineageNode,
  type LineageNodeId,
  PointsmanError,
  type SessionFrontier,
  type SessionLineage,
  type WorkerId,
  type WorkerRank,
} from '../plugin/index.ts';
import type { SessionKeys } from './session-keys.ts';

/** What views read; one for all of them. */
export interface LineageSource {
  readonly lineage: SessionPrefixIndex;
  readonly residency: Pick<FollowedIndex, 'externalHashes' | 'heldChain'>;
  readonly fleet: {
    /** Negative = there is none. */
    slotOf(id: WorkerId, rank: number): OwnerSlot;
    /** Null for a free slot. */
    slotWorkerId(slot: OwnerSlot): WorkerId | null;
    slotRank(slot: OwnerSlot): number;
  };
}

/** A node given out: a block of the index, and in whose hashes it is shown. */
interface ShownNode {
  readonly node: number;
  readonly slot: OwnerSlot;
}

/** The lineage for decisions or bookings, one at a time. */
export class LineageView implements SessionLineage {
  readonly #keys: SessionKeys;
  readonly #source: LineageSource;
  readonly #near: OwnerSlot | null;
  readonly #others: () => ArrayLike<OwnerSlot>;
  readonly #shown: ShownNode[] = [];
  /** Numbers of shown nodes by slot and node. */
  readonly #numbers = new Map<OwnerSlot, Map<number, LineageNodeId>>();

  /**
   * @param keys of the sessions that can be asked for.
   * @param near the rank whose hashes `nodeOf` is asked for first; null = none is nearer than others.
   * @param others ranks that it is asked for then, in this order.
   */
  constructor(
    source: LineageSource,
    keys: SessionKeys,
    near: OwnerSlot | null,
    others: () => ArrayLike<OwnerSlot>,
  ) {
    this.#source = source;
    this.#keys = keys;
    this.#near = near;
    this.#others = others;
    // The policies of a booking share it: a member that one of them adds must not stand before those of the class.
    Object.freeze(this);
  }

  /** Another decision or booking begins: nodes given out before are forgotten. No member of the object, as policies see that. */
  static begin(view: LineageView): void {
    if (view.#shown.length === 0) return;
    view.#shown.length = 0;
    view.#numbers.clear();
  }

  nodeOf(hash: BlockHash): LineageNodeId | null {
    const nearest = this.#near === null ? null : this.#nodeOn(this.#near, hash);
    if (nearest !== null) return nearest;
    const others = this.#others();
    for (let at = 0; at < others.length; at += 1) {
      const node = this.#nodeOn(others[at]!, hash);
      if (node !== null) return node;
    }
    return null;
  }

  node(id: LineageNodeId): LineageNode | null {
    const shown = this.#shown[id];
    if (shown === undefined) return null;
    const { lineage } = this.#source;
    const { slot } = shown;
    const block = lineage.node(shown.node);
    const blockHash = this.#engineHash(slot, shown.node);
    if (block === null || blockHash === null) return null;
    const held = block.children.filter((child) => this.#engineHash(slot, child) !== null);
    const children = Object.freeze(held.map((child) => this.#show(child, slot)));
    if (block.parent === null) return Object.freeze({ blockHash, children });
    return Object.freeze({ blockHash, parent: this.#show(block.parent, slot), children });
  }

  frontiers(sessionId: string): readonly SessionFrontier[] {
    const key = this.#keys.of(sessionId);
    const { fleet, lineage } = this.#source;
    const frontiers: SessionFrontier[] = [];
    if (key === null) return frontiers;
    for (const owner of new Set(lineage.frontiers(key).map((frontier) => frontier.owner))) {
      const workerId = fleet.slotWorkerId(owner);
      if (workerId === null) continue;
      const worker = Object.freeze({ workerId, rank: fleet.slotRank(owner) });
      lineage.forEachPath(key, owner, null, (path) => {
        const known = this.#known(owner, path, new BigUint64Array(path.length / 2));
        const node = known === 0 ? null : lineage.nodeOf(hashAt(path, known - 1));
        if (node !== null) frontiers.push(Object.freeze({ worker, node: this.#show(node, owner) }));
      });
    }
    return frontiers;
  }

  paths(sessionId: string, worker: WorkerRank, anchor?: BlockHash): readonly BigUint64Array[] {
    const { lineage } = this.#source;
    const slot = this.#slotOf(worker);
    if (anchor !== undefined) this.#requireNode(slot, anchor);
    const key = this.#keys.of(sessionId);
    const paths: BigUint64Array[] = [];
    if (key === null || slot < 0) return paths;
    lineage.forEachPath(key, slot, null, (path) => {
      const out = new BigUint64Array(path.length / 2);
      const known = this.#known(slot, path, out);
      const whole = known === out.length ? out : out.slice(0, known);
      const from = anchor === undefined ? 0 : whole.indexOf(anchor);
      if (known > 0 && from >= 0) paths.push(from === 0 ? whole : whole.slice(from));
    });
    return paths;
  }

  uniqueBlocks(sessionId: string, worker: WorkerRank): BigUint64Array {
    return union(this.paths(sessionId, worker));
  }

  exclusiveBlocks(sessionId: string, worker: WorkerRank): BigUint64Array {
    const { lineage } = this.#source;
    const slot = this.#slotOf(worker);
    const key = this.#keys.of(sessionId);
    if (key === null || slot < 0) return new BigUint64Array(0);
    const nodes = new Set<number | null>();
    const exclusive = lineage.exclusiveBlocks(key, slot);
    for (let at = 0; at < exclusive.length / 2; at += 1) nodes.add(lineage.nodeOf(hashAt(exclusive, at)));
    const ends: BigUint64Array[] = [];
    lineage.forEachPath(key, slot, null, (path) => {
      const out = new BigUint64Array(path.length / 2);
      const known = this.#known(slot, path, out);
      // What is behind an exclusive block is exclusive too: whoever has it has the block.
      let [low, high] = [0, known];
      while (low < high) {
        const middle = (low + high) >>> 1;
        if (nodes.has(lineage.nodeOf(hashAt(path, middle)))) high = middle;
        else low = middle + 1;
      }
      ends.push(out.slice(low, known));
    });
    return union(ends);
  }

  /** Writes what a rank calls the leading blocks that it knows; how many. */
  #known(slot: OwnerSlot, blocks: HashPairs, out: BigUint64Array): number {
    return this.#source.residency.externalHashes(slot, blocks, 0, blocks.length / 2, out);
  }

  #slotOf({ workerId, rank }: WorkerRank): OwnerSlot {
    return this.#source.fleet.slotOf(workerId, rank);
  }

  #requireNode(slot: OwnerSlot, anchor: BlockHash): void {
    if (slot >= 0 && this.#nodeOn(slot, anchor) !== null) return;
    throw new PointsmanError(
      'PM_KV_LINEAGE_ANCHOR',
      `paths were asked for from block ${anchor} on, but no session has it on that worker; ask nodeOf first, or leave the anchor out`,
      { details: { anchor: anchor.toString() } },
    );
  }

  #nodeOn(slot: OwnerSlot, hash: BlockHash): LineageNodeId | null {
    const block = this.#routerHash(slot, hash);
    const node = block === null ? null : this.#source.lineage.nodeOf(block);
    return node === null ? null : this.#show(node, slot);
  }

  #routerHash(slot: OwnerSlot, hash: BlockHash): U64 | null {
    const { lo, hi } = u64FromBigInt(hash);
    const chain = this.#source.residency.heldChain(slot, Uint32Array.of(lo, hi));
    return chain === null ? null : hashAt(chain.hashes, 0);
  }

  /** What a rank calls a block; null when it does not hold it. */
  #engineHash(slot: OwnerSlot, node: number): BlockHash | null {
    const path = this.#source.lineage.pathTo(node, MOST_BEFORE + 1);
    const last = path.length / 2 - 1;
    const out = new BigUint64Array(1);
    if (last < 0 || this.#source.residency.externalHashes(slot, path, last, last + 1, out) === 0) return null;
    return out[0]!;
  }

  #show(node: number, slot: OwnerSlot): LineageNodeId {
    const numbers = this.#numbers.get(slot) ?? new Map<number, LineageNodeId>();
    this.#numbers.set(slot, numbers);
    const known = numbers.get(node);
    if (known !== undefined) return known;
    const number = this.#shown.push({ node, slot }) - 1;
    numbers.set(node, number);
    return number;
  }
}

/** Every hash of some lists once, in their order. */
function union(lists: readonly BigUint64Array[]): BigUint64Array {
  const [only = new BigUint64Array(0), ...others] = lists;
  if (others.length === 0) return only;
  const all = new Set<bigint>();
  for (const list of lists) for (const hash of list) all.add(hash);
  return BigUint64Array.from(all);
}
