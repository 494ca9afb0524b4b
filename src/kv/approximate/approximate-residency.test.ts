import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createReferenceHasher } from '../hashing/reference-hasher.ts';
import { hashAt, u64ToBigInt } from '../hashing/u64.ts';
import { createPrefixIndex } from '../residency/extent-index.ts';
import { ApproximateResidency } from './approximate-residency.ts';
import { NaiveBeliefs } from './naive-beliefs.fixtures.ts';

const hasher = createReferenceHasher();

/** The chain whose blocks have these contents. */
function chainOf(contents: readonly number[]) {
  const local = new Uint32Array(2 * contents.length);
  for (const [index, content] of contents.entries()) local[2 * index] = content + 1;
  const sequence = new Uint32Array(local.length);
  hasher.chain(null, local, sequence);
  return { local, sequence, names: contents.map((_, index) => u64ToBigInt(hashAt(sequence, index))) };
}

function bench(options: { timeToLiveMs?: number; maxBlocks?: number } = {}) {
  const { timeToLiveMs = 1000, maxBlocks = 1000 } = options;
  const index = createPrefixIndex({ hasher });
  const beliefs = new ApproximateResidency({ index, timeToLiveMs, maxBlocks });
  const depth = (owner: number, contents: readonly number[]): number => {
    const { local, sequence } = chainOf(contents);
    const { count, owners, depthPerTier } = index.find(local, sequence, ['device']);
    for (let row = 0; row < count; row++) if (owners[row] === owner) return depthPerTier[0]![row]!;
    return 0;
  };
  let attempts = 0;
  const send = (owner: number, contents: readonly number[], now = 0): number => {
    const { local, sequence } = chainOf(contents);
    beliefs.sent(owner, ++attempts, local, sequence, now);
    return attempts;
  };
  const serve = (owner: number, contents: readonly number[], now = 0, cachedBlocks: number | null = null) =>
    beliefs.ended(send(owner, contents, now), { computed: true, cachedBlocks }, now);
  return { index, beliefs, depth, send, serve };
}

describe('a prompt', () => {
  it('is believed to be cached from when it is sent, and for a while after it ended', () => {
    const { beliefs, depth, send } = bench({ timeToLiveMs: 100 });
    const attempt = send(3, [1, 2, 3]);
    expect([depth(3, [1, 2, 3]), depth(3, [1, 2, 9]), depth(4, [1, 2, 3])]).toEqual([3, 2, 0]);
    beliefs.expire(5000);
    expect(depth(3, [1, 2, 3])).toBe(3);
    beliefs.ended(attempt, { computed: true, cachedBlocks: null }, 5000);
    beliefs.expire(5099);
    expect(depth(3, [1, 2, 3])).toBe(3);
    beliefs.expire(5100);
    expect(depth(3, [1, 2, 3])).toBe(0);
    expect(beliefs.stats().blocks).toBe(0);
  });

  it('leaves nothing behind when it was never computed, but what others computed or use', () => {
    const { beliefs, depth, send, serve } = bench();
    serve(0, [1]);
    const failed = send(0, [1, 2, 3, 4]);
    const under = send(0, [1, 2]);
    beliefs.ended(failed, { computed: false, cachedBlocks: null }, 1);
    expect(depth(0, [1, 2, 3, 4])).toBe(2);
    beliefs.ended(under, { computed: false, cachedBlocks: null }, 2);
    expect(depth(0, [1, 2])).toBe(1);
    beliefs.ended(under, { computed: true, cachedBlocks: 0 }, 3);
    expect(depth(0, [1, 2])).toBe(1);
  });

  it('lives longer each time it is used', () => {
    const { beliefs, depth, serve } = bench({ timeToLiveMs: 100 });
    serve(0, [1, 2, 3], 0);
    serve(0, [1, 2], 60);
    beliefs.expire(120);
    expect(depth(0, [1, 2, 3])).toBe(2);
  });

  it('of a number that is under way already is refused', () => {
    const { beliefs } = bench();
    const { local, sequence } = chainOf([1]);
    beliefs.sent(0, 7, local, sequence, 0);
    expect(() => beliefs.sent(1, 7, local, sequence, 0)).toThrow('booking 7 has a prompt under way already');
  });
});

describe('a pool of known size', () => {
  it('evicts what is unused for longest, the deepest first, and never what is in use', () => {
    const { beliefs, depth, send, serve } = bench();
    beliefs.setCapacity(0, 6);
    serve(0, [1, 2, 3]);
    serve(0, [7, 8]);
    const running = send(0, [4, 5]);
    expect([depth(0, [1, 2, 3]), depth(0, [7, 8]), depth(0, [4, 5])]).toEqual([2, 2, 2]);
    beliefs.generated(running, 3);
    expect([depth(0, [1, 2, 3]), depth(0, [7, 8]), depth(0, [4, 5])]).toEqual([0, 1, 2]);
    send(0, [21, 22, 23, 24, 25, 26, 27]);
    expect([depth(0, [7, 8]), depth(0, [4, 5])]).toEqual([0, 2]);
    // Generated tokens stay cached too, although nobody can ask for them.
    beliefs.ended(running, { computed: true, cachedBlocks: null }, 1);
    expect(depth(0, [4, 5])).toBe(0);
  });

  it('becomes known, changes and is forgotten', () => {
    const { beliefs, depth, serve } = bench({ timeToLiveMs: 10 });
    serve(0, [1, 2, 3, 4]);
    beliefs.setCapacity(0, 2);
    expect(depth(0, [1, 2, 3, 4])).toBe(2);
    beliefs.expire(100);
    expect(depth(0, [1, 2, 3, 4])).toBe(2);
    beliefs.setCapacity(0, null);
    beliefs.expire(100);
    expect(depth(0, [1, 2])).toBe(0);
    beliefs.forget(0);
    beliefs.forget(0);
    expect(beliefs.stats()).toMatchObject({ blocks: 0, leases: 0 });
  });
});

describe('a report of cached tokens', () => {
  it('lower than believed gives up what was unused for as long', () => {
    const { beliefs, depth, serve } = bench();
    serve(0, [1, 2, 3], 10);
    serve(0, [4, 5], 20);
    serve(0, [6, 7], 30);
    serve(0, [4, 5], 40, 1);
    expect([depth(0, [1, 2, 3]), depth(0, [6, 7]), depth(0, [4, 5])]).toEqual([0, 2, 2]);
    expect(beliefs.stats()).toMatchObject({ corrections: 1, correctedBlocks: 3 });
  });

  it('says nothing of blocks that were still being computed, or that somebody used', () => {
    const { beliefs, depth, send, serve } = bench();
    serve(0, [9], 5);
    const first = send(0, [1, 2], 10);
    serve(0, [1, 2], 20, 0);
    beliefs.ended(first, { computed: true, cachedBlocks: 0 }, 30);
    const holds = send(0, [1, 2], 40);
    beliefs.computed(holds);
    serve(0, [1, 2], 50, 0);
    expect(depth(0, [9])).toBe(1);
    expect(beliefs.stats().corrections).toBe(0);
  });
});

describe('the index', () => {
  it('has beliefs put back when it gave up blocks before them', () => {
    const { index, depth, serve } = bench();
    serve(0, [1, 2]);
    index.remove(0, 'device', chainOf([1]).sequence);
    expect(depth(0, [1, 2])).toBe(0);
    index.remove(0, 'device', chainOf([1, 2]).sequence);
    serve(0, [1, 2, 3]);
    expect(depth(0, [1, 2, 3])).toBe(3);
  });

  it('without room leaves a prompt out and the rest as it was', () => {
    const index = createPrefixIndex({ hasher, maxHoldings: 4 });
    const beliefs = new ApproximateResidency({ index, timeToLiveMs: 100, maxBlocks: 100 });
    const small = chainOf([1, 2]);
    const large = chainOf([1, 2, 3, 4, 5]);
    beliefs.sent(0, 1, small.local, small.sequence, 0);
    beliefs.sent(0, 2, large.local, large.sequence, 0);
    expect(beliefs.stats()).toMatchObject({ blocks: 2, refused: 1, leases: 1 });
    beliefs.ended(2, { computed: true, cachedBlocks: null }, 0);
    beliefs.ended(1, { computed: true, cachedBlocks: null }, 0);
    expect(beliefs.stats()).toMatchObject({ blocks: 2, leases: 0 });
    expect(index.stats().residencies).toBe(2);
  });
});

it('agrees with a naive model, whatever happens', () => {
  const owner = fc.nat(2);
  const contents = fc
    .tuple(fc.nat(2), fc.nat(12), fc.nat(2))
    .map(([root, length, tail]) =>
      Array.from({ length }, (_, index) =>
        index < length - 2 ? 10 * root + index : 100 + 10 * tail + index,
      ),
    );
  const step = fc.oneof(
    fc.record({ kind: fc.constant('send' as const), owner, contents }),
    fc.record({ kind: fc.constant('compute' as const), which: fc.nat(20) }),
    fc.record({ kind: fc.constant('generate' as const), which: fc.nat(20), blocks: fc.nat(4) }),
    fc.record({
      kind: fc.constant('end' as const),
      which: fc.nat(20),
      computed: fc.boolean(),
      cachedBlocks: fc.option(fc.nat(12)),
    }),
    fc.record({ kind: fc.constant('wait' as const), ms: fc.nat(120) }),
    fc.record({ kind: fc.constant('capacity' as const), owner, capacity: fc.option(fc.nat(30)) }),
    fc.record({ kind: fc.constant('one-sequence' as const), owner, on: fc.boolean() }),
    fc.record({ kind: fc.constant('forget' as const), owner }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const { index, beliefs, depth, send } = bench({ timeToLiveMs: 200, maxBlocks: 40 });
      const naive = new NaiveBeliefs(200, 40);
      const sent: number[] = [];
      const asked: (readonly [number, readonly number[]])[] = [];
      let now = 0;
      for (const one of steps) {
        now += 1;
        const attempt = 'which' in one ? (sent[one.which % Math.max(1, sent.length)] ?? 0) : 0;
        switch (one.kind) {
          case 'send':
            sent.push(send(one.owner, one.contents, now));
            naive.sent(one.owner, sent.at(-1)!, chainOf(one.contents).names);
            asked.push([one.owner, one.contents]);
            break;
          case 'compute':
            beliefs.computed(attempt);
            naive.computed(attempt);
            break;
          case 'generate':
            beliefs.generated(attempt, one.blocks);
            naive.generated(attempt, one.blocks);
            break;
          case 'end':
            beliefs.ended(attempt, one, now);
            naive.ended(attempt, one, now);
            break;
          case 'wait':
            now += one.ms;
            break;
          case 'capacity':
            beliefs.setCapacity(one.owner, one.capacity);
            naive.setCapacity(one.owner, one.capacity);
            break;
          case 'one-sequence':
            beliefs.setOneSequence(one.owner, one.on);
            naive.setOneSequence(one.owner, one.on);
            break;
          case 'forget':
            beliefs.forget(one.owner);
            naive.forget(one.owner);
        }
        beliefs.expire(now);
        naive.expire(now);
        expect(beliefs.stats().blocks).toBe(naive.size);
        for (const [owner, chain] of asked)
          expect(depth(owner, chain)).toBe(naive.depth(owner, chainOf(chain).names));
      }
      expect(index.stats()).toMatchObject({ unknownParents: 0, unknownRemoves: 0, duplicateStores: 0 });
    }),
    { numRuns: 300 },
  );
});
