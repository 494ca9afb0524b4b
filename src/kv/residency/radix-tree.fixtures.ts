// A compressed radix tree over contents: chains of blocks that nothing leaves from share one edge. It knows no hash; what blocks are
// for is left to whoever puts something on them.

/** A block at its place in the tree. */
export interface TreeBlock<T> {
  node: TreeNode<T>;
  /** Its place on the edge of its node. */
  at: number;
  readonly content: number;
  readonly value: T;
}

/** An edge that ends where others leave. */
export interface TreeNode<T> {
  parent: TreeNode<T> | null;
  edge: TreeBlock<T>[];
  children: Map<number, TreeNode<T>>;
}

/** Blocks by what leads to them. */
export class RadixTree<T> {
  readonly #root: TreeNode<T> = { parent: null, edge: [], children: new Map() };
  readonly #make: () => T;
  readonly #isEmpty: (value: T) => boolean;

  /** @param isEmpty whether nothing is on a block, so that it may go. */
  constructor(make: () => T, isEmpty: (value: T) => boolean) {
    this.#make = make;
    this.#isEmpty = isEmpty;
  }

  /** Puts what lies on the blocks of a chain, as far as it is there, into a list; how many. */
  path(contents: Int32Array, out: T[]): number {
    let node = this.#root;
    let found = 0;
    for (;;) {
      const { edge } = node;
      for (const block of edge) {
        if (found === contents.length || block.content !== contents[found]) return found;
        out[found++] = block.value;
      }
      const next = found === contents.length ? undefined : node.children.get(contents[found]!);
      if (next === undefined) return found;
      node = next;
    }
  }

  /** The block with a content behind another one (null = at the root). */
  after(before: TreeBlock<T> | null, content: number): TreeBlock<T> | undefined {
    const node = before?.node ?? this.#root;
    const next = before === null ? undefined : node.edge[before.at + 1];
    if (next !== undefined) return next.content === content ? next : undefined;
    return node.children.get(content)?.edge[0];
  }

  /** Adds a block that is not there. */
  grow(before: TreeBlock<T> | null, content: number): TreeBlock<T> {
    let node = before?.node ?? this.#root;
    if (before !== null && before.at + 1 < node.edge.length) this.#split(node, before.at + 1);
    if (before === null || node.children.size > 0) {
      const child: TreeNode<T> = { parent: node, edge: [], children: new Map() };
      node.children.set(content, child);
      node = child;
    }
    const block: TreeBlock<T> = { node, at: node.edge.length, content, value: this.#make() };
    node.edge.push(block);
    return block;
  }

  /** Takes blocks off the end of a branch that nothing is on and nothing hangs on. */
  prune(from: TreeBlock<T>): void {
    for (let { node } = from; node.children.size === 0; ) {
      const first = node.edge[0];
      for (let last = node.edge.at(-1); last !== undefined && this.#isEmpty(last.value); ) {
        node.edge.pop();
        last = node.edge.at(-1);
      }
      if (node.edge.length > 0 || first === undefined || node.parent === null) return;
      node.parent.children.delete(first.content);
      node = node.parent;
    }
  }

  #split(node: TreeNode<T>, at: number): void {
    const lower: TreeNode<T> = { parent: node, edge: node.edge.slice(at), children: node.children };
    for (const [place, block] of lower.edge.entries()) {
      block.node = lower;
      block.at = place;
    }
    for (const child of lower.children.values()) child.parent = lower;
    node.edge = node.edge.slice(0, at);
    node.children = new Map([[lower.edge[0]!.content, lower]]);
  }
}
