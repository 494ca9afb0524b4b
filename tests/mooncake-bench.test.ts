// What the Mooncake benchmark feeds to both indexes: that its caches and events tell the same story, that its factors do what they say,
// and that both sides find the same. How fast they are is no matter of tests.
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { BlockCache } from '../bench/mooncake/block-cache.ts';
import { madeTrace } from '../bench/mooncake/made-trace.ts';
import {
  type OperationSettings,
  type Operations,
  operationsOf,
  promptHasher,
} from '../bench/mooncake/operations.ts';
import { grownRequests, type Requests } from '../bench/mooncake/requests.ts';
import { IndexSide, TreeSide, treeOperations } from '../bench/mooncake/sides.ts';
import { createBlockHasher, hashAt, ROUTER_SEED } from '../src/kv/index.ts';
import { readTrace } from '../src/replay/index.ts';

const SAMPLE = fileURLToPath(new URL('fixtures/mooncake_conversation_sample.jsonl', import.meta.url));
const ONCE = { lengthFactor: 1, copies: 1 };
const FEW_WORKERS = { workers: 3, duplicates: 1, blockSize: 16, capacity: 400, seed: 7, named: true };

const operations = (requests: Requests, settings: Partial<OperationSettings> = {}): Operations =>
  operationsOf(requests, { ...FEW_WORKERS, ...settings });

const made = (limit: number, growth = ONCE): Requests =>
  grownRequests(madeTrace('toolagent', limit, 5), growth);

/** A trace of prompts, one per second. */
const requestsOf = (prompts: readonly (readonly number[])[], growth = ONCE): Requests => {
  const idOffsets = new Uint32Array(prompts.length + 1);
  prompts.forEach((prompt, at) => {
    idOffsets[at + 1] = idOffsets[at]! + prompt.length;
  });
  const arrivals = prompts.map((_, at) => 1000 * at);
  return grownRequests(
    { requests: prompts.length, arrivals, idOffsets, hashIds: Uint32Array.from(prompts.flat()) },
    growth,
  );
};

const lists = ({ prompts }: Requests): number[][] => prompts.map((prompt) => [...prompt]);

describe('a block cache', () => {
  it('evicts the least recently used prompt, its tail before its head, and never a prefix before what is behind it', () => {
    const cache = new BlockCache(6);
    expect(cache.admit(Uint32Array.of(0, 1, 2))).toEqual({ hits: 0, evicted: [] });
    expect(cache.admit(Uint32Array.of(0, 3, 4))).toEqual({ hits: 1, evicted: [] });
    expect(cache.admit(Uint32Array.of(5, 6, 7))).toEqual({ hits: 0, evicted: [2, 1] });
    expect(cache.admit(Uint32Array.of(0, 3, 8, 9))).toEqual({ hits: 2, evicted: [4, 7] });
    expect([...cache.residents].sort()).toEqual([0, 3, 5, 6, 8, 9]);
  });

  it('leaves a prompt out that is longer than all of it', () => {
    const cache = new BlockCache(2);
    cache.admit(Uint32Array.of(0, 1));
    expect(cache.admit(Uint32Array.of(0, 1, 2))).toBeNull();
    expect([...cache.residents]).toEqual([0, 1]);
  });

  it('does as a list in order of use does', () => {
    const cache = new BlockCache(120);
    const order: number[] = [];
    for (const prompt of made(300).prompts) {
      if (prompt.length > 120) continue;
      let hits = 0;
      while (hits < prompt.length && order.includes(prompt[hits]!)) hits += 1;
      const kept = order.filter((id) => !prompt.includes(id));
      const evicted = kept.splice(0, Math.max(0, kept.length + prompt.length - 120));
      order.splice(0, order.length, ...kept, ...prompt.toReversed());
      expect(cache.admit(prompt)).toEqual({ hits, evicted });
    }
    expect([...cache.residents].sort()).toEqual(order.toSorted());
  });
});

describe('the events of the caches', () => {
  it.each([true, false])(
    'leave in the index just what the caches hold, engine hashes of their own: %s',
    (named) => {
      const requests = made(400);
      const work = operations(requests, { named, duplicates: 2 });
      expect(work.removes).toBe(true);
      const side = new IndexSide(work.list);
      work.list.forEach((_, at) => void side.apply(at));
      const hash = promptHasher(FEW_WORKERS.blockSize);
      const prefixOf = new Map<number, Uint32Array>();
      for (const prompt of requests.prompts)
        prompt.forEach((id, at) => void prefixOf.set(id, prompt.subarray(0, at + 1)));
      for (let owner = 0; owner < work.owners; owner += 1) {
        const residents = [...work.caches[owner % FEW_WORKERS.workers]!.residents];
        expect(residents.length).toBeGreaterThan(0);
        expect(side.index.blocksOf(owner)).toEqual([residents.length, 0, 0, 0]);
        for (const id of residents) {
          const prefix = prefixOf.get(id)!;
          const { sequence } = hash(prefix);
          expect(side.index.holds(owner, 'device', sequence, prefix.length - 1)).toBe(true);
        }
      }
      const { unknownParents, unknownRemoves, conflictingStores, duplicateStores } = side.index.stats();
      expect({ unknownParents, unknownRemoves, conflictingStores, duplicateStores }).toEqual({
        unknownParents: 0,
        unknownRemoves: 0,
        conflictingStores: 0,
        duplicateStores: 0,
      });
    },
  );

  it('are told behind their look-up, at its time, in steps of 8,192 tokens', () => {
    const prompt = Array.from({ length: 40 }, (_, id) => id);
    const work = operations(requestsOf([[99], prompt]), { blockSize: 512 });
    expect(work.list.map(({ kind }) => kind)).toEqual(['find', 'store', 'find', 'store', 'store', 'store']);
    expect(work.times).toEqual([0, 0, 1000, 1000, 1000, 1000]);
    const sizes = work.list.map((operation) => (operation.kind === 'store' ? operation.local.length / 2 : 0));
    expect(sizes).toEqual([0, 1, 0, 16, 16, 8]);
    expect(work).toMatchObject({ blocksLookedUp: 41, blocksTold: 41, owners: 3, removes: false, tooLong: 0 });
  });

  it('hash a block as XXH3-64 of its id, repeated for the whole block', () => {
    const { local, sequence } = promptHasher(16)(Uint32Array.of(7, 70_000));
    const hasher = createBlockHasher();
    const bytes = (id: number): Uint8Array => new Uint8Array(new Uint32Array(16).fill(id).buffer);
    expect(hashAt(local, 0)).toEqual(hasher.hashBytes(bytes(7), ROUTER_SEED));
    expect(hashAt(local, 1)).toEqual(hasher.hashBytes(bytes(70_000), ROUTER_SEED));
    expect(hashAt(sequence, 0)).toEqual(hashAt(local, 0));
  });

  it('leave a prompt that no cache holds to its look-up', () => {
    const work = operations(requestsOf([[1, 2, 3], [4]]), { capacity: 2 });
    expect(work.list.map(({ kind }) => kind)).toEqual(['find', 'find', 'store']);
    expect(work.tooLong).toBe(1);
  });

  it('are the same for the same seed, and others for another', () => {
    const owners = (seed: number): number[] =>
      operations(made(50), { seed }).list.flatMap((operation) =>
        operation.kind === 'store' ? [operation.owner] : [],
      );
    expect(owners(7)).toEqual(owners(7));
    expect(owners(8)).not.toEqual(owners(7));
  });
});

describe('the factors', () => {
  it('make of each worker copies that get the same and name it otherwise', () => {
    const requests = made(60);
    const alone = operations(requests);
    const copied = operations(requests, { duplicates: 3 });
    expect(copied.list).toHaveLength(3 * alone.list.length);
    expect(copied.blocksLookedUp).toBe(3 * alone.blocksLookedUp);
    expect(copied.blocksTold).toBe(3 * alone.blocksTold);
    expect(copied.owners).toBe(9);
    const storesOf = (owner: number) =>
      copied.list.flatMap((operation) =>
        operation.kind === 'store' && operation.owner === owner ? [operation] : [],
      );
    for (const worker of [0, 1, 2]) {
      const stores = storesOf(worker);
      for (const copy of [1, 2]) {
        const others = storesOf(worker + 3 * copy);
        expect(others.map(({ local }) => local)).toEqual(stores.map(({ local }) => local));
        expect(others[0]!.external).not.toEqual(stores[0]!.external);
      }
    }
  });

  it('make of each id so many in a row', () => {
    expect(lists(requestsOf([[0, 2], [1]], { lengthFactor: 3, copies: 1 }))).toEqual([
      [0, 1, 2, 6, 7, 8],
      [3, 4, 5],
    ]);
  });

  it('make of each request copies that share nothing with it, at its time', () => {
    const requests = requestsOf([[0, 2], [1]], { lengthFactor: 2, copies: 2 });
    expect(lists(requests)).toEqual([
      [0, 1, 4, 5],
      [6, 7, 10, 11],
      [2, 3],
      [8, 9],
    ]);
    expect(Array.from(requests.arrivals)).toEqual([0, 0, 1000, 1000]);
  });

  it('are refused where ids have no room', () => {
    expect(() => requestsOf([[1_000_000]], { lengthFactor: 4096, copies: 2 })).toThrow(
      'ids up to 1000000, --length-factor 4096 and --trace-copies 2 make 8192008192 ids, and there are 4294967296; take less of either',
    );
  });

  it('need ids that say what is before them', () => {
    expect(() =>
      requestsOf([
        [1, 2],
        [3, 2],
      ]),
    ).toThrow(
      'hash id 2 stands behind 1 and, in request 2, behind 3; in a Mooncake trace an id stands for its block and everything before it',
    );
    expect(() => requestsOf([[1, 2], [2]])).toThrow('hash id 2 stands behind 1 and, in request 2, first;');
  });
});

describe('both sides', () => {
  it.each([
    ['the sample of the conversation trace', () => readTrace(SAMPLE), 60],
    ['a made trace of three clusters', () => Promise.resolve(madeTrace('toolagent', 200, 3)), 400],
    ['a made trace without shared blocks', () => Promise.resolve(madeTrace('synthetic', 200, 3)), 400],
  ] as const)('find each owner as deep as the other in %s', async (_, trace, capacity) => {
    const requests = grownRequests(await trace(), ONCE);
    for (const named of [true, false]) {
      const { list } = operations(requests, { capacity, duplicates: 2, named });
      const forTree = treeOperations(list);
      const index = new IndexSide(list);
      const tree = new TreeSide(forTree);
      let deepest = 0;
      for (const [at, operation] of list.entries()) {
        const asTree = forTree[at]!;
        if (operation.kind === 'find' && asTree.kind === 'find') {
          const { count, depthPerTier, owners } = index.index.find(operation.local, operation.sequence, [
            'device',
          ]);
          const found = Array.from({ length: count }, (__, row) => [owners[row]!, depthPerTier[0]![row]!]);
          const expected = [...tree.tree.find(asTree.contents)].sort(([a], [b]) => a - b);
          expect(found).toEqual(expected);
          deepest = Math.max(deepest, ...expected.map(([, depth]) => depth));
        }
        expect(index.apply(at)).toBe(tree.apply(at));
      }
      expect(deepest).toBeGreaterThan(1);
      expect(tree.tree.root.children.size).toBeGreaterThan(0);
    }
  });
});

describe('a made trace', () => {
  const firsts = (name: string): number[] => {
    const { hashIds, idOffsets, requests } = madeTrace(name, 4000, 1);
    const counts = new Map<number, number>();
    for (let request = 0; request < requests; request += 1) {
      const first = hashIds[idOffsets[request]!]!;
      counts.set(first, (counts.get(first) ?? 0) + 1 / requests);
    }
    return [...counts.values()].sort((a, b) => b - a);
  };

  it('has the first blocks of the trace it stands for', () => {
    expect(firsts('conversation')).toHaveLength(1);
    const [most, middle, least, ...more] = firsts('toolagent');
    expect(more).toEqual([]);
    expect(Math.abs(most! - 0.46)).toBeLessThan(0.03);
    expect(Math.abs(middle! - 0.39)).toBeLessThan(0.03);
    expect(Math.abs(least! - 0.15)).toBeLessThan(0.03);
    expect(firsts('synthetic').length).toBeGreaterThan(2000);
  });

  it('is the same for the same seed', () => {
    expect(madeTrace('toolagent', 100, 2).hashIds).toEqual(madeTrace('toolagent', 100, 2).hashIds);
  });
});
