// Which prompt blocks are in use by active requests, per slot. Requests share blocks by prefix, and a request holds its whole
// chain, so the blocks form a tree of runs: booking, freeing and asking touch a node per fork, never a block at a time.
import type { HashPairs, OwnerSlot } from '../kv/index.ts';
import { PrefixNode, sameBlock } from './prefix-node.ts';

/** What an active request holds on to: the deepest run of its prompt. Opaque to callers. */
export type HeldPrefix = PrefixNode;

/** Reference-counted prefixes of active requests. */
export class ActivePrefixes {
  readonly #root = new PrefixNode(new Uint32Array(0), 0, 0, null);
  #nodes = 0;
  /** Result of `measure`: depth per slot, and the slots whose entry is not 0. */
  #depths = new Int32Array(16);
  readonly #measured: OwnerSlot[] = [];
  /** By how many blocks the last `hold`, `release` or `weigh` changed its slot. */
  #changed = 0;

  /** Runs in the tree; 0 when no request is active. */
  get nodeCount(): number {
    return this.#nodes;
  }

  /**
   * By how many blocks, each counted with its weight, the slot holds more since the last `hold` or `weigh`, or less since the last
   * `release`.
   */
  get changedBlocks(): number {
    return this.#changed;
  }

  /**
   * A request of `slot` now holds blocks [0, blocks) of a chain. `sequence` is kept and must not be written to.
   * Blocks that no other request of the slot held weigh 1, and so do, again, those that are shared from now on.
   * @returns what to hand to `release`, null for an empty chain.
   */
  hold(slot: OwnerSlot, sequence: HashPairs, blocks: number): HeldPrefix | null {
    this.#changed = 0;
    let node = this.#root;
    for (let at = 0; at < blocks; at = node.end) {
      const child = node.childAt(sequence, at);
      if (child === null) node = this.#append(node, sequence, at, blocks);
      else {
        const end = matchEnd(child, sequence, blocks);
        node = end === child.end ? child : this.#split(child, end);
      }
      this.#changed += node.enter(slot) * (node.end - node.start);
    }
    return node === this.#root ? null : node;
  }

  /** The request gives its chain up; call once per `hold`. */
  release(slot: OwnerSlot, held: HeldPrefix): void {
    this.#changed = 0;
    let node: PrefixNode | null = held;
    while (node !== null && node !== this.#root) {
      const parent: PrefixNode | null = node.parent;
      this.#changed += node.leave(slot) * (node.end - node.start);
      if (node.total === 0) {
        parent?.detach(node);
        this.#nodes -= 1;
      } else this.#tidy(node);
      node = parent;
    }
  }

  /**
   * Lets the tail of a held chain that no other request of the slot shares weigh `weight` per block, 0 to 1. What is shared
   * weighs 1.
   */
  weigh(slot: OwnerSlot, held: HeldPrefix, weight: number): void {
    this.#changed = 0;
    let node: PrefixNode | null = held;
    while (node !== null && node !== this.#root) {
      const change = node.weigh(slot, weight);
      // Who shares a block shares everything before it.
      if (change === null) return;
      this.#changed += change * (node.end - node.start);
      const parent: PrefixNode | null = node.parent;
      this.#tidy(node);
      node = parent;
    }
  }

  /** Finds for every slot how many leading blocks of a chain its active requests hold; read with `depthOf`. */
  measure(sequence: HashPairs, blocks: number): void {
    this.clearMeasure();
    let node = this.#root;
    for (let at = 0; at < blocks; at = node.end) {
      const child = node.childAt(sequence, at);
      if (child === null) return;
      const end = matchEnd(child, sequence, blocks);
      // Holders of a run hold everything before it: the first run names them all.
      if (at === 0) for (const slot of child.slots) this.#measured.push(slot);
      for (const slot of child.slots) this.#setDepth(slot, end);
      if (end < child.end) return;
      node = child;
    }
  }

  /** Makes `depthOf` answer 0 for every slot. */
  clearMeasure(): void {
    for (const slot of this.#measured) this.#depths[slot] = 0;
    this.#measured.length = 0;
  }

  /** Whether active requests of any slot hold some of the measured chain. */
  get isHeld(): boolean {
    return this.#measured.length > 0;
  }

  /** Leading blocks of the measured chain that active requests of `slot` hold. */
  depthOf(slot: OwnerSlot): number {
    return this.#depths[slot] ?? 0;
  }

  #setDepth(slot: OwnerSlot, depth: number): void {
    if (slot >= this.#depths.length) {
      const longer = new Int32Array(Math.max(slot + 1, this.#depths.length * 2));
      longer.set(this.#depths);
      this.#depths = longer;
    }
    this.#depths[slot] = depth;
  }

  #append(parent: PrefixNode, sequence: HashPairs, start: number, end: number): PrefixNode {
    const node = new PrefixNode(sequence, start, end, parent);
    parent.attach(node);
    this.#nodes += 1;
    return node;
  }

  /** Puts blocks [start, at) of `lower` into a new node above it; `lower` stays what its holders hold on to. */
  #split(lower: PrefixNode, at: number): PrefixNode {
    const parent = lower.parent ?? this.#root;
    parent.detach(lower);
    const upper = this.#append(parent, lower.sequence, lower.start, at);
    upper.copyHolders(lower);
    lower.start = at;
    upper.attach(lower);
    return upper;
  }

  /**
   * After a request left or weighs less: joins a node with its only child when everyone in it goes on into the child (nobody can then hold
   * on to the upper one) and weighs the same there, and lets go of an array much longer than what it stands for.
   */
  #tidy(node: PrefixNode): void {
    const child = node.onlyChild();
    if (child !== null && child.total === node.total && node.weighsAs(child)) {
      const parent = node.parent ?? this.#root;
      node.detach(child);
      parent.detach(node);
      child.start = node.start;
      parent.attach(child);
      this.#nodes -= 1;
      return;
    }
    if (node.sequence.length > 4 * node.end + 64) {
      node.sequence = node.sequence.slice(0, 2 * node.end);
    }
  }
}

/** First block of [node.start, min(node.end, blocks)) that differs from the chain; the node's first block is known to match. */
function matchEnd(node: PrefixNode, sequence: HashPairs, blocks: number): number {
  const end = Math.min(node.end, blocks);
  if (sameBlock(node.sequence, sequence, end - 1)) return end;
  let same = node.start;
  let differs = end - 1;
  while (differs - same > 1) {
    const middle = (same + differs) >>> 1;
    if (sameBlock(node.sequence, sequence, middle)) same = middle;
    else differs = middle;
  }
  return differs;
}
