// The prefix index beside a tree of Maps: look-ups of 128, 512 and 2,048 matching blocks among 200,000 and 1,000,000 resident
// ones, stores, removes and memory. Both sides get the same events and the same queries and build the same result.
import {
  createBlockHasher,
  createPrefixIndex,
  type HashPairs,
  hashAt,
  type PrefixIndex,
  type U64,
} from '../src/kv/index.ts';
import { type Rng, seededRng } from '../src/plugin/index.ts';
import type { BenchResult, BenchRow } from './bench-result.ts';

const OWNERS = 16;
const CHAIN = 2048;
/** Leading blocks that chains of one system prompt share. */
const SHARED = 64;
const SYSTEM_PROMPTS = 32;
const EVENT = 16;
const BUILDS = 3;
const ROUNDS = 11;
const FINDS = 40;

/** One store event, in both forms. */
interface StoreEvent {
  readonly owner: number;
  readonly parent: U64 | null;
  readonly external: HashPairs;
  readonly local: HashPairs;
  readonly parentName: bigint | null;
  readonly names: readonly bigint[];
  readonly contents: readonly bigint[];
}

interface Chain {
  readonly local: HashPairs;
  readonly sequence: HashPairs;
  readonly contents: readonly bigint[];
}

interface Workload {
  readonly events: readonly StoreEvent[];
  readonly chains: readonly Chain[];
}

function randomPairs(rng: Rng, n: number): HashPairs {
  const pairs = new Uint32Array(2 * n);
  for (let i = 0; i < pairs.length; i++) pairs[i] = rng.integer(2 ** 32);
  return pairs;
}

const bigints = (pairs: HashPairs): bigint[] =>
  Array.from(
    { length: pairs.length / 2 },
    (_, i) => (BigInt(pairs[2 * i + 1]!) << 32n) | BigInt(pairs[2 * i]!),
  );

const hasher = createBlockHasher();

/** Chains of random content, each on one owner; the system prompts in front are on every owner that has a chain behind them. */
function workload(blocks: number): Workload {
  const rng = seededRng(blocks);
  const systems = Array.from({ length: SYSTEM_PROMPTS }, () => randomPairs(rng, SHARED));
  const known = new Set<string>();
  const events: StoreEvent[] = [];
  const chains: Chain[] = [];
  const perChain = CHAIN - SHARED;
  for (let c = 0; c * perChain + SYSTEM_PROMPTS * SHARED < blocks; c++) {
    const owner = c % OWNERS;
    const system = rng.integer(SYSTEM_PROMPTS);
    const local = randomPairs(rng, CHAIN);
    local.set(systems[system]!);
    const sequence = new Uint32Array(2 * CHAIN);
    hasher.chain(null, local, sequence);
    // Engine hashes: other values than the router's, equal for equal content on one owner.
    const external = sequence.map((word, i) => (Math.imul(word, 0x9e3779b1) ^ (owner * 77 + (i & 1))) >>> 0);
    const contents = bigints(local);
    const names = bigints(external);
    chains.push({ local, sequence, contents });
    const start = known.has(`${owner} ${system}`) ? SHARED : 0;
    known.add(`${owner} ${system}`);
    for (let at = start; at < CHAIN; at += EVENT) {
      events.push({
        owner,
        parent: at === 0 ? null : hashAt(external, at - 1),
        parentName: at === 0 ? null : names[at - 1]!,
        external: external.slice(2 * at, 2 * (at + EVENT)),
        local: local.slice(2 * at, 2 * (at + EVENT)),
        names: names.slice(at, at + EVENT),
        contents: contents.slice(at, at + EVENT),
      });
    }
  }
  return { events, chains };
}

interface TreeNode {
  readonly content: bigint;
  readonly parent: TreeNode | null;
  readonly children: Map<bigint, TreeNode>;
  readonly owners: Set<number>;
}

/** What one writes first: a node with two collections per block, a Map of names per owner. */
class MapTree {
  readonly root: TreeNode = { content: 0n, parent: null, children: new Map(), owners: new Set() };
  readonly #named = new Map<number, Map<bigint, TreeNode>>();

  store(event: StoreEvent): void {
    const named = this.#named.get(event.owner) ?? new Map<bigint, TreeNode>();
    this.#named.set(event.owner, named);
    let node: TreeNode | undefined = event.parentName === null ? this.root : named.get(event.parentName);
    for (let i = 0; i < event.names.length && node !== undefined; i++) {
      const content = event.contents[i]!;
      const child: TreeNode = node.children.get(content) ?? {
        content,
        parent: node,
        children: new Map(),
        owners: new Set(),
      };
      node.children.set(content, child);
      child.owners.add(event.owner);
      named.set(event.names[i]!, child);
      node = child;
    }
  }

  remove(event: StoreEvent): void {
    const named = this.#named.get(event.owner);
    for (const name of event.names) {
      let node = named?.get(name);
      if (node === undefined) continue;
      named?.delete(name);
      node.owners.delete(event.owner);
      while (node.parent !== null && node.owners.size === 0 && node.children.size === 0) {
        node.parent.children.delete(node.content);
        node = node.parent;
      }
    }
  }

  find(contents: readonly bigint[]): Map<number, number> {
    const depths = new Map<number, number>();
    let node = this.root.children.get(contents[0]!);
    if (node === undefined) return depths;
    const active = new Set(node.owners);
    let depth = 1;
    for (; depth < contents.length && active.size > 0; depth++) {
      node = node.children.get(contents[depth]!);
      if (node === undefined) break;
      for (const owner of active) {
        if (node.owners.has(owner)) continue;
        depths.set(owner, depth);
        active.delete(owner);
      }
    }
    for (const owner of active) depths.set(owner, depth);
    return depths;
  }
}

/** Milliseconds that `work` takes. */
function timed(work: () => void): number {
  const start = performance.now();
  work();
  return performance.now() - start;
}

/** Milliseconds of processor time that `work` takes, garbage collector threads included. */
function processorTime(work: () => void): number {
  globalThis.gc?.();
  const start = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1000;
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!;

function storeAll(index: PrefixIndex, events: readonly StoreEvent[]): void {
  for (const event of events) {
    const outcome = index.store(event.owner, 'device', event.parent, event.external, event.local);
    if (outcome !== 'stored') throw new Error(`a store of the workload ended as ${outcome}`);
  }
}

function findRows(size: string, work: Workload, index: PrefixIndex, tree: MapTree): BenchRow[] {
  const rows: BenchRow[] = [];
  const rng = seededRng(3);
  // The stores before make V8 compile the walk anew: let it, untimed.
  for (const chain of work.chains) index.find(chain.local, chain.sequence, ['device']);
  for (const chain of work.chains) tree.find(chain.contents);
  for (const depth of [128, 512, CHAIN]) {
    const ours: number[] = [];
    const theirs: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      // Every look-up is of another chain, so that caches hold no more of it than in service.
      const queries = Array.from({ length: FINDS }, () => {
        const chain = work.chains[rng.integer(work.chains.length)]!;
        return {
          local: chain.local.subarray(0, 2 * depth),
          sequence: chain.sequence.subarray(0, 2 * depth),
          contents: chain.contents.slice(0, depth),
        };
      });
      let deepest = 0;
      ours.push(
        timed(() => {
          for (const query of queries) {
            const match = index.find(query.local, query.sequence, ['device']);
            let best = 0;
            for (let row = 0; row < match.count; row++) best = Math.max(best, match.depthPerTier[0]![row]!);
            deepest += best;
          }
        }),
      );
      theirs.push(
        timed(() => {
          for (const query of queries) deepest -= Math.max(...tree.find(query.contents).values());
        }),
      );
      if (deepest !== 0) throw new Error('the index and the tree of Maps disagree');
    }
    const value = (median(ours) * 1000) / FINDS;
    const against = (median(theirs) * 1000) / FINDS;
    const name = `find, ${depth} matching of ${size} blocks`;
    rows.push(row(name, 'µs', value, against / value), row(`${name}, map tree`, 'µs', against, null));
  }
  return rows;
}

/** Bytes of the JavaScript heap; exact where the process exposes its collector. */
function heapBytes(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

function sizeRows(size: string, work: Workload): BenchRow[] {
  const { events } = work;
  const backwards = events.toReversed();
  const times = {
    store: [] as number[],
    remove: [] as number[],
    treeStore: [] as number[],
    treeRemove: [] as number[],
  };
  let middle: BenchRow[] = [];
  for (let build = 0; build < BUILDS; build++) {
    const index = createPrefixIndex({ hasher });
    times.store.push(processorTime(() => storeAll(index, events)));
    const heapBefore = heapBytes();
    const tree = new MapTree();
    times.treeStore.push(
      processorTime(() => {
        for (const event of events) tree.store(event);
      }),
    );
    if (build === 0) {
      const { bytes, blocks } = index.stats();
      const treeBytes = heapBytes() - heapBefore;
      middle = [
        ...findRows(size, work, index, tree),
        row(`memory, ${size} blocks`, 'bytes/block', bytes / blocks, treeBytes / bytes),
        row(`memory, ${size} blocks, map tree`, 'bytes/block', treeBytes / blocks, null),
      ];
    }
    times.remove.push(
      processorTime(() => {
        for (const event of backwards) index.remove(event.owner, 'device', event.external);
      }),
    );
    times.treeRemove.push(
      processorTime(() => {
        for (const event of backwards) tree.remove(event);
      }),
    );
    if (index.stats().blocks + tree.root.children.size > 0) throw new Error('blocks are left over');
  }
  const blocks = events.length * EVENT;
  const rate = (name: string, ours: readonly number[], theirs: readonly number[]): BenchRow[] => [
    row(name, 'blocks/s', (blocks / median(ours)) * 1000, median(theirs) / median(ours)),
    row(`${name}, map tree`, 'blocks/s', (blocks / median(theirs)) * 1000, null),
  ];
  return [
    ...rate(`store, ${size} blocks`, times.store, times.treeStore),
    ...middle,
    ...rate(`remove, ${size} blocks`, times.remove, times.treeRemove),
  ];
}

function row(name: string, unit: string, value: number, ratio: number | null): BenchRow {
  return { case: name, unit, value, ratio, against: ratio === null ? null : 'map tree' };
}

function run(): BenchResult {
  // A first, small pass compiles both sides; its figures are dropped.
  sizeRows('30k', workload(30_000));
  return {
    name: 'prefix-index',
    rows: [...sizeRows('200k', workload(200_000)), ...sizeRows('1M', workload(1_000_000))],
    notes: [
      `Chains of ${CHAIN} blocks, each on one of ${OWNERS} owners, the first ${SHARED} blocks one of ${SYSTEM_PROMPTS} system prompts; events of ${EVENT} blocks.`,
      `Stores and removes: blocks per second of processor time, growth from empty included, each side alone, median of ${BUILDS} builds in turn.`,
      'A store of the index includes the chained hash of its blocks; the tree of Maps needs none. Hashes of queries and the bigints of the tree are made beforehand.',
      `Look-ups: median of ${ROUNDS} rounds of ${FINDS}, both sides in turn, each on other chains. Result: depth per owner.`,
      'Bytes of the index are its array buffers, right after the load, both directions of engine hashes included; right after a doubling they are up to twice that. Bytes of the tree are heap growth, less exact.',
    ],
  };
}

export default { name: 'prefix-index', run };
