// What is measured: the prefix index, and the tree of Maps beside it, each fed with the same operations in the form it takes.
import {
  createBlockHasher,
  createPrefixIndex,
  type HashPairs,
  type PrefixIndex,
} from '../../src/kv/index.ts';
import { bigints, MapTree, type TreeEvent, treeEvent } from '../index-workload.ts';
import type { Operation } from './operations.ts';

/** One of the two, empty at first. */
export interface Side {
  /**
   * Does the operation at this place of the list.
   * @returns of a look-up the depths of all its owners together, so that its result is read; of an event 0.
   */
  apply(at: number): number;
}

/** Makes a side that has seen nothing yet; all that the operations cost in another form is spent before. */
export type MakeSide = (operations: readonly Operation[]) => () => Side;

const hasher = createBlockHasher();

/** Applies operations to the prefix index. */
export class IndexSide implements Side {
  readonly index: PrefixIndex;
  readonly #operations: readonly Operation[];

  constructor(operations: readonly Operation[], index: PrefixIndex = createPrefixIndex({ hasher })) {
    this.#operations = operations;
    this.index = index;
  }

  apply(at: number): number {
    const operation = this.#operations[at]!;
    if (operation.kind === 'find') {
      const { count, depthPerTier } = this.index.find(operation.local, operation.sequence, ['device']);
      const depths = depthPerTier[0]!;
      let sum = 0;
      for (let row = 0; row < count; row += 1) sum += depths[row]!;
      return sum;
    }
    if (operation.kind === 'remove') {
      const removed = this.index.remove(operation.owner, 'device', operation.external);
      if (2 * removed !== operation.external.length)
        throw new Error('a remove named a block that is not held');
      return 0;
    }
    const { external, local, owner, parent } = operation;
    const outcome = this.index.store(owner, 'device', parent, external, local);
    if (outcome !== 'stored') throw new Error(`a store of the trace ended as ${outcome}`);
    return 0;
  }
}

/** An operation of the tree of Maps. */
export type TreeOperation =
  | { readonly kind: 'find'; readonly contents: readonly bigint[] }
  | ({ readonly kind: 'store' } & TreeEvent)
  | { readonly kind: 'remove'; readonly owner: number; readonly names: readonly bigint[] };

/** The operations as the tree takes them; copies of a look-up share their numbers. */
export function treeOperations(operations: readonly Operation[]): TreeOperation[] {
  let last: HashPairs | null = null;
  let contents: readonly bigint[] = [];
  return operations.map((operation) => {
    if (operation.kind === 'store') return { kind: 'store', ...treeEvent(operation) };
    if (operation.kind === 'remove') {
      return { kind: 'remove', owner: operation.owner, names: bigints(operation.external) };
    }
    if (operation.local !== last) contents = bigints(operation.local);
    last = operation.local;
    return { kind: 'find', contents };
  });
}

/** Applies operations to the tree of Maps. */
export class TreeSide implements Side {
  readonly tree: MapTree;
  readonly #operations: readonly TreeOperation[];

  constructor(operations: readonly TreeOperation[], tree: MapTree = new MapTree()) {
    this.#operations = operations;
    this.tree = tree;
  }

  apply(at: number): number {
    const operation = this.#operations[at]!;
    if (operation.kind === 'store') this.tree.store(operation);
    else if (operation.kind === 'remove') this.tree.remove(operation);
    else {
      let sum = 0;
      for (const depth of this.tree.find(operation.contents).values()) sum += depth;
      return sum;
    }
    return 0;
  }
}

/** Lives as long as the process. */
const KEPT: Side[] = [];
const KEPT_OPERATIONS = 4000;

/**
 * Keeps a small one of each side from now on. V8 throws compiled code away with the last object of a shape that it was compiled for,
 * so a collection between two passes would have the next one compile anew, which no router does that keeps its index.
 */
export function keepCompiled(operations: readonly Operation[]): void {
  if (KEPT.length > 0) return;
  const some = operations.slice(0, KEPT_OPERATIONS);
  for (const make of Object.values(SIDES)) {
    const side = make(some)();
    some.forEach((_, at) => void side.apply(at));
    KEPT.push(side);
  }
}

/** Both sides, in the order they take turns. */
export const SIDES: Readonly<Record<'index' | 'tree', MakeSide>> = {
  index: (operations) => () => new IndexSide(operations),
  tree: (operations) => {
    const forTree = treeOperations(operations);
    return () => new TreeSide(forTree);
  },
};
