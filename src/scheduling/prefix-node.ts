// One run of blocks in the tree of active prompts (active-prefixes.ts): which blocks, who holds them, what follows.
import type { HashPairs, OwnerSlot } from '../kv/index.ts';

/** Above this many holders a node looks them up in a map instead of walking its list. */
const LIST_LIMIT = 8;

/**
 * Blocks [start, end) of a chain, held as a whole by everyone who holds any of them. `sequence` is the whole chain's sequence
 * hashes, so positions are absolute and any array that runs through the node may stand for it.
 */
export class PrefixNode {
  sequence: HashPairs;
  start: number;
  end: number;
  parent: PrefixNode | null;
  children: Map<number, PrefixNode> | null = null;
  childCount = 0;
  /** Next sibling under the same map key (half of the hash). */
  sibling: PrefixNode | null = null;

  /** Holding slots, in no order; `counts[i]` = active requests of `slots[i]` through this node. */
  slots: OwnerSlot[] = [];
  counts: number[] = [];
  /** Sum of `counts`. */
  total = 0;
  /** Weight of a block for `slots[i]`, less than 1 only where `counts[i]` is 1; null = 1 for all. */
  #weights: number[] | null = null;
  #places: Map<OwnerSlot, number> | null = null;

  constructor(sequence: HashPairs, start: number, end: number, parent: PrefixNode | null) {
    this.sequence = sequence;
    this.start = start;
    this.end = end;
    this.parent = parent;
  }

  /** One more request of `slot`; returns by how much each block weighs more: 1 for the slot's first, else what had faded. */
  enter(slot: OwnerSlot): number {
    this.total += 1;
    const place = this.#placeOf(slot);
    if (place >= 0) {
      this.counts[place] = (this.counts[place] ?? 0) + 1;
      if (this.#weights === null) return 0;
      const faded = 1 - (this.#weights[place] ?? 1);
      this.#weights[place] = 1;
      return faded;
    }
    this.slots.push(slot);
    this.counts.push(1);
    this.#weights?.push(1);
    if (this.#places !== null) this.#places.set(slot, this.slots.length - 1);
    else if (this.slots.length > LIST_LIMIT) this.#places = placesOf(this.slots);
    return 1;
  }

  /** One request of `slot` less; returns by how much each block weighs less: its weight when it was the slot's last, else 0. */
  leave(slot: OwnerSlot): number {
    const place = this.#placeOf(slot);
    if (place < 0) return 0;
    this.total -= 1;
    const left = (this.counts[place] ?? 1) - 1;
    if (left > 0) {
      this.counts[place] = left;
      return 0;
    }
    const weight = this.#weights?.[place] ?? 1;
    const lastSlot = this.slots.pop();
    const lastCount = this.counts.pop();
    const lastWeight = this.#weights?.pop();
    this.#places?.delete(slot);
    if (lastSlot !== undefined && lastCount !== undefined && lastSlot !== slot) {
      this.slots[place] = lastSlot;
      this.counts[place] = lastCount;
      this.#places?.set(lastSlot, place);
      if (this.#weights !== null && lastWeight !== undefined) this.#weights[place] = lastWeight;
    }
    return weight;
  }

  /**
   * Lets every block weigh `weight` (0 to 1) for the one request of `slot` that goes through here.
   * @returns by how much a block weighs more than before; null, and nothing changes, when requests share it.
   */
  weigh(slot: OwnerSlot, weight: number): number | null {
    const place = this.#placeOf(slot);
    if (this.counts[place] !== 1) return null;
    const before = this.#weights?.[place] ?? 1;
    if (before === weight) return 0;
    this.#weights ??= new Array<number>(this.slots.length).fill(1);
    this.#weights[place] = weight;
    return weight - before;
  }

  /** Whether blocks weigh as much here as in a node with the same holders. */
  weighsAs(other: PrefixNode): boolean {
    if (this.#weights === null && other.#weights === null) return true;
    return this.slots.every((slot) => this.#weightOf(slot) === other.#weightOf(slot));
  }

  /** Takes over the holders of a node with the same requests through it. */
  copyHolders(from: PrefixNode): void {
    this.slots = from.slots.slice();
    this.counts = from.counts.slice();
    this.total = from.total;
    this.#weights = from.#weights?.slice() ?? null;
    this.#places = this.slots.length > LIST_LIMIT ? placesOf(this.slots) : null;
  }

  /** The child whose first block is block `at` of `sequence`, or null. */
  childAt(sequence: HashPairs, at: number): PrefixNode | null {
    let child = this.children?.get(childKey(sequence, at)) ?? null;
    while (child !== null && !sameBlock(child.sequence, sequence, at)) child = child.sibling;
    return child;
  }

  /** Hangs a child below this node. */
  attach(child: PrefixNode): void {
    this.children ??= new Map();
    const key = childKey(child.sequence, child.start);
    child.sibling = this.children.get(key) ?? null;
    child.parent = this;
    this.children.set(key, child);
    this.childCount += 1;
  }

  /** Takes a child away. */
  detach(child: PrefixNode): void {
    const key = childKey(child.sequence, child.start);
    const first = this.children?.get(key) ?? null;
    if (first === child) {
      if (child.sibling === null) this.children?.delete(key);
      else this.children?.set(key, child.sibling);
    } else {
      let before = first;
      while (before !== null && before.sibling !== child) before = before.sibling;
      if (before !== null) before.sibling = child.sibling;
    }
    child.sibling = null;
    this.childCount -= 1;
  }

  /** The child of a node that has exactly one. */
  onlyChild(): PrefixNode | null {
    if (this.childCount !== 1 || this.children === null) return null;
    for (const child of this.children.values()) return child;
    return null;
  }

  #weightOf(slot: OwnerSlot): number {
    return this.#weights?.[this.#placeOf(slot)] ?? 1;
  }

  #placeOf(slot: OwnerSlot): number {
    return this.#places === null ? this.slots.indexOf(slot) : (this.#places.get(slot) ?? -1);
  }
}

/** Whether two chains are equal up to and including block `at`: a sequence hash stands for everything before it. */
export function sameBlock(a: HashPairs, b: HashPairs, at: number): boolean {
  return a[2 * at] === b[2 * at] && a[2 * at + 1] === b[2 * at + 1];
}

/** The low half of a hash as a signed number, which a map takes without allocating; siblings that share it form a list. */
function childKey(sequence: HashPairs, at: number): number {
  return (sequence[2 * at] ?? 0) | 0;
}

function placesOf(slots: readonly OwnerSlot[]): Map<OwnerSlot, number> {
  return new Map(slots.map((slot, place) => [slot, place]));
}
