// The prefix index beside a tree of Maps: look-ups of 128, 512 and 2,048 matching blocks among 200,000 and 1,000,000 resident ones,
// stores and removes with and without engine hashes, memory, and the longest pauses. Both sides get the same events and the same
// queries and build the same result.
import { createBlockHasher, createPrefixIndex, type PrefixIndex } from '../src/kv/index.ts';
import { seededRng } from '../src/plugin/index.ts';
import type { BenchResult, BenchRow } from './bench-result.ts';
import { memoryRows } from './index-memory.ts';
import {
  bigints,
  CHAIN,
  type Chain,
  EVENT,
  MapTree,
  SHARED,
  type StoreEvent,
  SYSTEM_PROMPTS,
  treeEvents,
  type Workload,
  workload,
} from './index-workload.ts';
import { busy, median, processorTime } from './processor-time.ts';

const OWNERS = 16;
const MANY_OWNERS = 1000;
const BUILDS = 5;
const ROUNDS = 11;
const FINDS = 40;
/** Passes over all chains after which V8 has compiled the walk. */
const WARM_UPS = 5;

const hasher = createBlockHasher();

/** Milliseconds that `work` takes. */
function timed(work: () => void): number {
  const start = performance.now();
  work();
  return performance.now() - start;
}

function store(index: PrefixIndex, event: StoreEvent): void {
  const outcome = index.store(event.owner, 'device', event.parent, event.external, event.local);
  if (outcome !== 'stored') throw new Error(`a store of the workload ended as ${outcome}`);
}

/** Deepest match and rows of it, so that both sides have read their result. */
function ask(index: PrefixIndex, { local, sequence }: Chain): number {
  const match = index.find(local, sequence, ['device']);
  let best = 0;
  for (let row = 0; row < match.count; row++) best = Math.max(best, match.depthPerTier[0]![row]!);
  return best;
}

/** Look-ups of so many leading blocks of chains drawn at random: caches hold no more of a chain than in service. */
function queriesOf(work: Workload, depth: number, seed: number): Chain[] {
  const rng = seededRng(seed);
  return Array.from({ length: FINDS }, () => {
    const { local, sequence } = work.chains[rng.integer(work.chains.length)]!;
    return { local: local.subarray(0, 2 * depth), sequence: sequence.subarray(0, 2 * depth) };
  });
}

function findRows(size: string, work: Workload): BenchRow[] {
  const index = createPrefixIndex({ hasher });
  for (const event of work.events) store(index, event);
  const tree = new MapTree();
  for (const event of treeEvents(work.events)) tree.store(event);
  const rows: BenchRow[] = [];
  // The stores before make V8 compile the walk anew: let it, untimed.
  for (const chain of work.chains) ask(index, chain);
  for (const chain of work.chains) tree.find(bigints(chain.local));
  for (const depth of [128, 512, CHAIN]) {
    const ours: number[] = [];
    const theirs: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const queries = queriesOf(work, depth, depth + round);
      const contents = queries.map(({ local }) => bigints(local));
      let deepest = 0;
      ours.push(
        timed(() => {
          for (const query of queries) deepest += ask(index, query);
        }),
      );
      theirs.push(
        timed(() => {
          for (const query of contents) deepest -= Math.max(...tree.find(query).values());
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

function sizeRows(size: string, work: Workload, named: boolean): BenchRow[] {
  const { events } = work;
  const times = {
    store: [] as number[],
    remove: [] as number[],
    treeStore: [] as number[],
    treeRemove: [] as number[],
  };
  const what = `${size} blocks${named ? '' : ' without engine hashes'}`;
  for (let build = 0; build < BUILDS; build++) {
    const index = createPrefixIndex({ hasher });
    times.store.push(
      processorTime(() => {
        for (const event of events) store(index, event);
      }),
    );
    times.remove.push(
      processorTime(() => {
        for (const { owner, external } of events.toReversed()) index.remove(owner, 'device', external);
      }),
    );
    const tree = new MapTree();
    const forTree = treeEvents(events);
    times.treeStore.push(
      processorTime(() => {
        for (const event of forTree) tree.store(event);
      }),
    );
    times.treeRemove.push(
      processorTime(() => {
        for (const event of forTree.toReversed()) tree.remove(event);
      }),
    );
    if (index.stats().blocks + tree.root.children.size > 0) throw new Error('blocks are left over');
  }
  const blocks = events.length * EVENT;
  const rate = (name: string, ours: readonly number[], theirs: readonly number[]): BenchRow[] => {
    const ratios = ours.map((time, build) => theirs[build]! / time);
    return [
      row(name, 'blocks/s', (blocks / median(ours)) * 1000, median(ratios)),
      row(`${name}, map tree`, 'blocks/s', (blocks / median(theirs)) * 1000, null),
    ];
  };
  return [
    ...rate(`store, ${what}`, times.store, times.treeStore),
    ...rate(`remove, ${what}`, times.remove, times.treeRemove),
    ...memoryRows(what, {
      index: (index) => events.forEach((event) => void store(index, event)),
      prepare: () => treeEvents(events),
      tree: (tree, prepared) => prepared.forEach((event) => void tree.store(event)),
    }),
    ...(named ? findRows(size, work) : []),
  ];
}

/** Look-ups among the blocks of 1,000 owners beside those of 16. */
function ownerRows(few: Workload, many: Workload): BenchRow[] {
  const sides = [few, many].map((work) => {
    const index = createPrefixIndex({ hasher });
    for (const event of work.events) store(index, event);
    for (let pass = 0; pass < WARM_UPS; pass++) for (const chain of work.chains) ask(index, chain);
    return { work, index, times: [] as number[] };
  });
  for (let round = 0; round < ROUNDS; round++) {
    for (const { work, index, times } of sides) {
      const queries = queriesOf(work, CHAIN, round);
      times.push(
        timed(() => {
          for (const query of queries) ask(index, query);
        }),
      );
    }
  }
  const [ofFew, ofMany] = sides.map(({ times }) => (median(times) * 1000) / FINDS);
  const name = `find, ${CHAIN} matching of 1M blocks, ${MANY_OWNERS} owners`;
  return [{ case: name, unit: 'µs', value: ofMany!, ratio: ofFew! / ofMany!, against: `${OWNERS} owners` }];
}

/** Longest time that one call keeps the thread: the least of several builds, for the collector's threads add to it by chance. */
function pauseRows(work: Workload): BenchRow[] {
  const longest = {
    store: [] as number[],
    clear: [] as number[],
    piece: [] as number[],
    whole: [] as number[],
  };
  for (let build = 0; build < BUILDS; build++) {
    const pieces: (() => void)[] = [];
    const index = createPrefixIndex({ hasher, later: (piece) => void pieces.push(piece) });
    let most = 0;
    for (const event of work.events)
      most = Math.max(
        most,
        busy(() => store(index, event)),
      );
    longest.store.push(most);
    let clear = 0;
    for (let owner = 0; owner < OWNERS; owner++)
      clear = Math.max(
        clear,
        busy(() => index.clear(owner, 'all')),
      );
    longest.clear.push(clear);
    let piece = 0;
    let whole = 0;
    for (let next = pieces.shift(); next !== undefined; next = pieces.shift()) {
      const time = busy(next);
      piece = Math.max(piece, time);
      whole += time;
    }
    longest.piece.push(piece);
    longest.whole.push(whole);
    if (index.stats().blocks > 0) throw new Error('a clear left blocks');
  }
  return [
    row('longest store while 1M blocks come', 'ms', Math.min(...longest.store), null),
    row('longest clear of an owner, 1M blocks in all', 'ms', Math.min(...longest.clear), null),
    row('longest piece of clearing 1M blocks away', 'ms', Math.min(...longest.piece), null),
    row('all pieces of clearing 1M blocks away', 'ms', Math.min(...longest.whole), null),
  ];
}

function row(name: string, unit: string, value: number, ratio: number | null): BenchRow {
  return { case: name, unit, value, ratio, against: ratio === null ? null : 'map tree' };
}

function run(): BenchResult {
  // First passes compile both sides; their figures are dropped.
  sizeRows('', workload(200_000, OWNERS, true), true);
  sizeRows('', workload(200_000, OWNERS, false), false);
  const million = workload(1_000_000, OWNERS, true);
  const owners = ownerRows(million, workload(1_000_000, MANY_OWNERS, true));
  const pauses = pauseRows(million);
  return {
    name: 'prefix-index',
    rows: [
      ...sizeRows('200k', workload(200_000, OWNERS, true), true),
      ...sizeRows('1M', million, true),
      ...sizeRows('1M', workload(1_000_000, OWNERS, false), false),
      ...owners,
      ...pauses,
    ],
    notes: [
      `Chains of ${CHAIN} blocks, each on one of ${OWNERS} owners, the first ${SHARED} blocks one of ${SYSTEM_PROMPTS} system prompts; events of ${EVENT} blocks.`,
      `Stores and removes: blocks per second of processor time, growth from empty included, each side alone, medians of ${BUILDS} builds in turn.`,
      'A store of the index includes the chained hash of its blocks; the tree of Maps needs none. Hashes of queries and the bigints of the tree are made beforehand, those of its events after the index had its turn.',
      `Look-ups: median of ${ROUNDS} rounds of ${FINDS}, both sides in turn, each on other chains. Result: depth per owner.`,
      'Bytes of the index are its array buffers, those of the process within 2 %; with engine hashes both directions are included. Bytes of the tree are heap growth, less exact.',
      'Without engine hashes: the engine announces the hashes the router has anyway, so that none are kept.',
      `Longest times: processor time of single calls, collections of V8 that fall into them included, the least of ${BUILDS} builds.`,
    ],
  };
}

export default { name: 'prefix-index', run };
