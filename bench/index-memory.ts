// What a block costs in memory: in the prefix index, whose bytes are array buffers, and in the tree of Maps, whose bytes are on the heap.
import { createBlockHasher, createPrefixIndex, type PrefixIndex } from '../src/kv/index.ts';
import type { BenchRow } from './bench-result.ts';
import { MapTree } from './index-workload.ts';
import { heapBytes } from './processor-time.ts';

/** How both sides are filled with the same blocks. */
export interface Filling<Prepared> {
  readonly index: (index: PrefixIndex) => void;
  /** What the tree is filled from, made before its bytes are counted. */
  readonly prepare: () => Prepared;
  readonly tree: (tree: MapTree, prepared: Prepared) => void;
}

/**
 * Rows for memory per distinct resident block, in the index and beside it on the heap, and per (owner, block) pair.
 * @throws Error when the index counts other bytes than the process does.
 */
export function memoryRows<Prepared>(name: string, fill: Filling<Prepared>): BenchRow[] {
  const hasher = createBlockHasher();
  const heap = heapBytes();
  const arrays = process.memoryUsage().arrayBuffers;
  const index = createPrefixIndex({ hasher });
  fill.index(index);
  const growth = heapBytes() - heap;
  const held = process.memoryUsage().arrayBuffers - arrays;
  const { bytes, blocks, residencies } = index.stats();
  if (Math.abs(held / bytes - 1) > 0.02)
    throw new Error(`the index counts ${bytes} bytes, but holds ${held}`);
  const tree = new MapTree();
  const prepared = fill.prepare();
  const before = heapBytes();
  fill.tree(tree, prepared);
  const treeBytes = heapBytes() - before;
  if (tree.root.children.size === 0) throw new Error('the tree of Maps is empty');
  const row = (label: string, unit: string, value: number, ratio: number | null): BenchRow => {
    return { case: label, unit, value, ratio, against: ratio === null ? null : 'map tree' };
  };
  return [
    row(`memory, ${name}`, 'bytes/block', bytes / blocks, treeBytes / bytes),
    row(`memory, ${name}, map tree`, 'bytes/block', treeBytes / blocks, null),
    row(`memory on the JavaScript heap, ${name}`, 'bytes/block', Math.max(0, growth) / blocks, null),
    row(`memory per owner that holds a block, ${name}`, 'bytes/pair', bytes / residencies, null),
  ];
}
