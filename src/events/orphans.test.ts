import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type DumpedBlock, type PrefixIndex, TIERS } from '../kv/index.ts';
import { bench, hashes, removed, stored } from './applier.fixtures.ts';
import { OrphanBuffer } from './orphan-buffer.ts';
import type { BlockStoredEvent, KvEvent } from './types.ts';

/** All that an index holds, in an order of its own. */
function held(index: PrefixIndex): string[] {
  const blocks: DumpedBlock[] = [];
  for (let cursor: number | null = 0; cursor !== null; ) {
    const page = index.dump(cursor, 1000);
    blocks.push(...page.blocks);
    cursor = page.cursor;
  }
  return blocks.map((block) => JSON.stringify(block)).sort();
}

describe('a block whose parent is not known', () => {
  it('waits, is no root, and is indexed with those behind it when the parent comes', () => {
    const { send, depth, applier, index, gauge } = bench();
    send(1, stored([12, 13], [5, 6, 7, 8], { after: 11 }), stored([14], [9, 9], { after: 13 }));
    expect(applier.orphanBlocks(1)).toBe(3);
    expect(gauge('pointsman_kv_orphan_blocks')).toBe(3);
    expect(index.stats().blocks).toBe(0);
    expect(depth(1, [5, 6, 7, 8])).toBe(0);
    send(1, stored([10, 11], [1, 2, 3, 4]));
    expect(depth(1, [1, 2, 3, 4, 5, 6, 7, 8, 9, 9])).toBe(5);
    expect(gauge('pointsman_kv_orphan_blocks')).toBe(0);
    expect(applier.feed(1)?.rejected).toEqual({});
  });

  it('waits for its own owner’s block', () => {
    const { send, depth } = bench();
    send(1, stored([10], [1, 2]));
    send(2, stored([11], [3, 4], { after: 10 }));
    expect(depth(2, [3, 4])).toBe(0);
    send(2, stored([10], [1, 2]));
    expect(depth(2, [1, 2, 3, 4])).toBe(2);
  });

  it('asks for a replay once, and again only after none waited any more', () => {
    const { send, asked } = bench();
    send(1, stored([11], [3, 4], { after: 10 }), stored([21], [3, 4], { after: 20 }));
    send(2, stored([11], [3, 4], { after: 10 }));
    expect(asked).toEqual([1, 2]);
    send(1, stored([10], [1, 2]));
    send(1, stored([31], [3, 4], { after: 30 }));
    expect(asked).toEqual([1, 2]);
    send(1, stored([20], [1, 2]), stored([30], [1, 2]));
    send(1, stored([41], [3, 4], { after: 40 }));
    expect(asked).toEqual([1, 2, 1]);
    send(1, { kind: 'cleared' }, stored([51], [3, 4], { after: 50 }));
    expect(asked).toEqual([1, 2, 1, 1]);
    send(1, removed([51]), stored([61], [3, 4], { after: 60 }));
    expect(asked).toEqual([1, 2, 1, 1, 1]);
  });

  it('is gone when it is removed, cleared, or its engine starts anew', () => {
    const { send, depth, applier, index } = bench();
    send(1, stored([11], [3, 4], { after: 10 }), removed([11]), stored([10], [1, 2]));
    expect(depth(1, [1, 2, 3, 4])).toBe(1);
    expect(applier.feed(1)?.unknownRemoves).toBe(0);
    send(1, stored([21], [3, 4], { after: 20 }), { kind: 'cleared' }, stored([20], [1, 2]));
    expect(depth(1, [1, 2, 3, 4])).toBe(1);
    send(1, stored([31], [3, 4], { after: 30 }));
    expect(applier.orphanBlocks(1)).toBe(1);
    applier.restarted(1);
    expect(applier.orphanBlocks(1)).toBe(0);
    expect(index.stats().blocks).toBe(1);
  });

  it('leaves what waits behind it in place when it is removed', () => {
    const { send, depth, applier } = bench();
    send(1, stored([11], [3, 4], { after: 10 }), stored([12], [5, 6], { after: 11 }), removed([11]));
    expect(applier.orphanBlocks(1)).toBe(1);
    send(1, stored([10], [1, 2]));
    expect(depth(1, [1, 2, 3, 4, 5, 6])).toBe(1);
    // As in an index that heard all in order: the hole fills, and the block behind it is found.
    send(1, stored([11], [3, 4], { after: 10 }));
    expect(depth(1, [1, 2, 3, 4, 5, 6])).toBe(3);
  });

  it('waits per tier, and a clear of one tier takes that tier’s', () => {
    const { send, depth, applier } = bench();
    send(1, stored([11], [3, 4], { after: 10, tier: 'host' }), stored([11], [3, 4], { after: 10 }));
    send(1, removed([11], 'disk'));
    expect(applier.orphanBlocks(1)).toBe(2);
    send(1, { kind: 'cleared', tier: 'host' });
    expect(applier.orphanBlocks(1)).toBe(1);
    send(1, stored([10], [1, 2]));
    expect(depth(1, [1, 2, 3, 4])).toBe(2);
    expect(depth(1, [1, 2, 3, 4], { tier: 'host' })).toBe(0);
  });

  it('takes the salt from its parent only when that is known', () => {
    const { send, depth } = bench();
    send(1, stored([11], [3, 4], { after: 10 }), stored([12], [5, 6], { after: 11 }));
    send(1, stored([10], [1, 2], { cacheSalt: 't' }));
    expect(depth(1, [1, 2, 3, 4, 5, 6], { cacheSalt: 't' })).toBe(3);
  });

  it('waits in bounded numbers: the oldest are dropped and counted', () => {
    const { send, depth, applier, counts } = bench({ eventLimits: { orphanBlocks: 3 } });
    send(1, stored([11, 12], [3, 4, 5, 6], { after: 10 }));
    send(1, stored([21, 22], [3, 4, 5, 6], { after: 20 }));
    expect(applier.orphanBlocks(1)).toBe(3);
    expect(applier.feed(1)).toMatchObject({ rejected: {}, rejectedBlocks: { unknown_parent: 1 } });
    expect(counts.get('pointsman_kv_blocks_rejected_total unknown_parent')).toBe(1);
    send(1, stored([10], [1, 2]), stored([20], [1, 1]));
    expect(depth(1, [1, 2, 3, 4])).toBe(1);
    expect(depth(1, [1, 1, 3, 4, 5, 6])).toBe(3);
  });

  it('waits in bounded bytes, its own owner’s and all together, with arrays of its own', () => {
    const budget = { bytes: 0, maxBytes: 3000 };
    const first = new OrphanBuffer(100, 2000, budget);
    const second = new OrphanBuffer(100, 2000, budget);
    const big = new Uint32Array(65_536);
    const event = (hash: number): BlockStoredEvent => ({
      ...stored([], []),
      external: hashes(hash),
      tokenIds: big.subarray(0, 2),
    });
    expect(first.add(event(1), { lo: 0, hi: 9 })).toBe(0);
    expect(first.add(event(2), { lo: 0, hi: 9 })).toBe(0);
    expect(budget.bytes).toBeLessThan(2000);
    expect(first.add(event(3), { lo: 0, hi: 9 })).toBe(1);
    expect(second.add(event(1), { lo: 0, hi: 9 })).toBe(0);
    // The other's share is not taken from it.
    expect(second.add(event(2), { lo: 0, hi: 9 })).toBe(1);
    expect([first.blocks, second.blocks]).toEqual([2, 1]);
    expect(second.add({ ...event(4), tokenIds: big, blockSize: big.length }, { lo: 0, hi: 9 })).toBe(1);
    const [taken] = first.take(0, 9);
    expect(taken?.event.tokenIds.buffer.byteLength).toBe(8);
    second.clear('all');
    expect(budget.bytes).toBe(0);
  });

  it('is refused when it is its own parent', () => {
    const { send, applier } = bench();
    send(1, stored([10, 11], [1, 2, 3, 4], { after: 11 }), stored([20, 20], [1, 2, 3, 4], { after: 19 }));
    expect(applier.feed(1)?.rejected).toEqual({ self_reference: 2 });
    expect(applier.orphanBlocks(1)).toBe(0);
  });
});

/** A random forest of blocks: block i hangs on one before it or on nothing, and is told in events of a few blocks of a chain. */
interface Forest {
  readonly events: BlockStoredEvent[];
}

const forests: fc.Arbitrary<Forest> = fc
  .array(
    fc.record({ back: fc.nat(5), size: fc.integer({ min: 1, max: 4 }), salt: fc.nat(2), tier: fc.nat(1) }),
    {
      minLength: 1,
      maxLength: 14,
    },
  )
  .map((rows) => {
    const events: BlockStoredEvent[] = [];
    let next = 1;
    rows.forEach(({ back, size, salt, tier }, at) => {
      const before = back === 0 ? undefined : events[at - back];
      const external = Array.from({ length: size }, (_, i) => next + i);
      next += size;
      const tokens = external.flatMap((hash) => [hash, hash % 3]);
      const last = before?.external.at(-2);
      events.push(
        stored(external, tokens, {
          ...(last === undefined ? null : { after: last }),
          ...(before === undefined && salt > 0 ? { cacheSalt: `salt ${salt}` } : null),
          tier: TIERS[tier] ?? 'device',
        }),
      );
    });
    return { events };
  });

describe('stores in any order', () => {
  it('give the index of the right order, once all parents came', () => {
    fc.assert(
      fc.property(
        forests.chain(({ events }) =>
          fc.record({
            events: fc.constant(events),
            order: fc.shuffledSubarray([...events.keys()], { minLength: events.length }),
            repeats: fc.subarray([...events.keys()]),
          }),
        ),
        ({ events, order, repeats }) => {
          const right = bench();
          for (const event of events) right.send(1, event);
          const mixed = bench();
          for (const at of [...order, ...repeats]) mixed.send(1, events[at]!);
          expect(held(mixed.index)).toEqual(held(right.index));
          expect(mixed.applier.orphanBlocks(1)).toBe(0);
          expect(mixed.applier.feed(1)?.rejected).toEqual({});
        },
      ),
      { numRuns: 300 },
    );
  });

  it('never give a prompt more than the right order does, whatever is lost or removed', () => {
    fc.assert(
      fc.property(
        forests.chain(({ events }) =>
          fc.record({
            events: fc.constant(events),
            heard: fc.shuffledSubarray([...events.keys()]),
            gone: fc.array(fc.nat(40), { maxLength: 5 }),
          }),
        ),
        ({ events, heard, gone }) => {
          const all = bench();
          const some = bench();
          for (const event of events) all.send(1, event);
          for (const at of heard) some.send(1, events[at]!);
          for (const tier of TIERS) some.send(1, removed(gone, tier) as KvEvent);
          const full = new Set(held(all.index));
          for (const block of held(some.index)) expect(full.has(block)).toBe(true);
        },
      ),
      { numRuns: 200 },
    );
  });
});
