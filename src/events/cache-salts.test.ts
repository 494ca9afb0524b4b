import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bench, hashes, removed, stored } from './applier.fixtures.ts';
import { HashMarks } from './hash-marks.ts';

const TENANT = { cacheSalt: 'tenant' };
const OTHER = { cacheSalt: 'other' };

describe('the cache salt of a chain', () => {
  it('goes on from parent to child, through the adapter’s seed too', () => {
    const { send, depth } = bench();
    send(1, stored([10], [1, 2], TENANT));
    send(1, stored([11, 12], [3, 4, 5, 6], { after: 10 }), stored([13], [7, 8], { after: 12 }));
    expect(depth(1, [1, 2, 3, 4, 5, 6, 7, 8], TENANT)).toBe(4);
    expect(depth(1, [1, 2, 3, 4])).toBe(0);
    expect(depth(1, [1, 2, 3, 4], OTHER)).toBe(0);
    send(1, stored([20], [1, 2], { ...TENANT, loraName: 'a' }));
    send(1, stored([21], [3, 4], { loraName: 'a', after: 20 }));
    expect(depth(1, [1, 2, 3, 4], { ...TENANT, loraName: 'a' })).toBe(2);
  });

  it('is each owner’s own', () => {
    const { send, depth } = bench();
    send(1, stored([10], [1, 2], TENANT));
    send(2, stored([10], [1, 2]));
    send(1, stored([11], [3, 4], { after: 10 }));
    send(2, stored([11], [3, 4], { after: 10 }));
    expect(depth(1, [1, 2, 3, 4], TENANT)).toBe(2);
    expect(depth(2, [1, 2, 3, 4])).toBe(2);
  });

  it('is not clear when one hash has two, or none after one, or one after none: nothing hangs on it', () => {
    const pairs = [
      [TENANT, OTHER],
      [TENANT, {}],
      [{}, TENANT],
    ];
    for (const [first, second] of pairs) {
      const { send, depth, applier } = bench();
      send(1, stored([10], [1, 2], first), stored([10], [1, 2], second));
      expect(applier.feed(1)?.rejected).toEqual({ ambiguous_cache_namespace: 1 });
      send(1, stored([11, 12], [3, 4, 5, 6], { after: 10 }));
      expect(applier.feed(1)?.rejectedBlocks).toEqual({ ambiguous_cache_namespace: 3 });
      // Nor on what hangs on it: it is left out too, and does not wait for a parent that never comes.
      send(1, stored([13], [7, 8], { after: 12 }));
      expect(applier.feed(1)?.rejectedBlocks).toEqual({ ambiguous_cache_namespace: 4 });
      expect(applier.orphanBlocks(1)).toBe(0);
      expect(depth(1, [1, 2, 3, 4], { ...first })).toBe(1);
      expect(depth(1, [1, 2, 3, 4], { ...second })).toBe(0);
    }
  });

  it('is forgotten with the block, but not that it was ambiguous', () => {
    const { send, depth, applier } = bench();
    send(1, stored([10], [1, 2], TENANT), removed([10]), stored([10], [1, 2], OTHER));
    send(1, stored([11], [3, 4], { after: 10 }));
    expect(depth(1, [1, 2, 3, 4], OTHER)).toBe(2);
    send(1, stored([10], [1, 2], TENANT), removed([10]), stored([10], [1, 2], TENANT));
    expect(applier.feed(1)?.rejected).toEqual({ ambiguous_cache_namespace: 2 });
  });

  it('lasts while the block is on any tier', () => {
    const { send, depth } = bench();
    send(1, stored([10], [1, 2], { ...TENANT }), stored([10], [1, 2], { ...TENANT, tier: 'host' }));
    send(1, removed([10]), stored([11], [3, 4], { after: 10, tier: 'host' }));
    expect(depth(1, [1, 2, 3, 4], { ...TENANT, tier: 'host' })).toBe(2);
  });

  it('is forgotten when the owner clears, ambiguity included', () => {
    const { send, depth, applier } = bench();
    send(1, stored([10], [1, 2], TENANT), stored([10], [1, 2], OTHER), { kind: 'cleared' });
    send(1, stored([10], [1, 2]), stored([11], [3, 4], { after: 10 }));
    expect(depth(1, [1, 2, 3, 4])).toBe(2);
    expect(applier.feed(1)?.rejectedBlocks).toEqual({ ambiguous_cache_namespace: 1 });
  });

  it('does not come back with a new engine behind the slot', () => {
    const { applier, send, depth } = bench();
    send(1, stored([10], [1, 2], TENANT));
    applier.onDecodedBatch(1, 0, { timestamp: 0, rank: null, events: [stored([10], [1, 2])] });
    applier.onDecodedBatch(1, 1, { timestamp: 0, rank: null, events: [stored([11], [3, 4], { after: 10 })] });
    expect(depth(1, [1, 2, 3, 4])).toBe(2);
  });

  it('is not remembered without bound: blocks beyond are left out, and room comes back', () => {
    const { send, depth, applier } = bench({ eventLimits: { markedHashes: 3 } });
    send(1, stored([10, 11, 12], [1, 2, 3, 4, 5, 6], TENANT));
    send(1, stored([20], [9, 9], TENANT));
    expect(applier.feed(1)?.rejectedBlocks).toEqual({ cache_namespace_full: 1 });
    send(1, removed([12]), stored([20], [9, 9], TENANT));
    expect(depth(1, [9, 9], TENANT)).toBe(1);
  });

  it('shares one budget in bytes among all owners, long texts counted', () => {
    const tenant = { cacheSalt: 'x'.repeat(100) };
    // Two hashes and a salt of 100 letters, of either owner.
    const { send, depth, applier } = bench({ eventLimits: { allMarkBytes: 2 * (2 * 40 + 160 + 200) } });
    for (const owner of [1, 2]) send(owner, stored([10, 11], [1, 2, 3, 4], tenant));
    send(3, stored([10], [1, 2], tenant));
    expect([1, 2, 3].map((owner) => depth(owner, [1, 2, 3, 4], tenant))).toEqual([2, 2, 0]);
    expect(applier.feed(3)?.rejectedBlocks).toEqual({ cache_namespace_full: 1 });
    applier.forget(1);
    send(3, stored([10], [1, 2], tenant));
    expect(depth(3, [1, 2], tenant)).toBe(1);
  });

  it('may be any text, the empty one being none', () => {
    const { send, depth } = bench();
    send(1, stored([10], [1, 2], { cacheSalt: '' }), stored([11], [3, 4], { after: 10 }));
    expect(depth(1, [1, 2, 3, 4])).toBe(2);
  });
});

describe('a block that the router cannot identify', () => {
  const scope = { groupIndex: null, attentionKind: null, locality: null, unsupported: 'extra_keys' } as const;

  it('takes those behind it along: they are left out, and ask for no replay', () => {
    const { applier, depth, asked } = bench();
    const events = [stored([10], [1, 2], { scope }), stored([11], [3, 4], { after: 10 })];
    applier.onDecodedBatch(1, 0, { timestamp: 0, rank: null, events });
    expect(applier.feed(1)?.rejectedBlocks).toEqual({ extra_keys: 1, unusable_parent: 1 });
    expect(applier.orphanBlocks(1)).toBe(0);
    expect(asked).toEqual([]);
    expect(depth(1, [3, 4])).toBe(0);
    // The hash may come to stand for a block it can identify.
    const again = [removed([10, 11]), stored([10], [1, 2]), stored([11], [3, 4], { after: 10 })];
    applier.onDecodedBatch(1, 1, { timestamp: 0, rank: null, events: again });
    expect(depth(1, [1, 2, 3, 4])).toBe(2);
    expect(applier.feed(1)?.unknownRemoves).toBe(0);
  });
});

describe('HashMarks', () => {
  it('agrees with a plain map over any changes, and forgets salts that no hash has', () => {
    const hash = fc.integer({ min: 0, max: 7 });
    const list = fc.array(hash, { maxLength: 3 });
    const change = fc.oneof(
      fc.record({ kind: fc.constant('salt' as const), list, salt: fc.constantFrom('a', 'b', 'c', null) }),
      fc.record({ kind: fc.constantFrom('ambiguous' as const, 'unusable' as const), list }),
      fc.record({ kind: fc.constant('forget' as const), list }),
      fc.record({ kind: fc.constant('clear' as const) }),
    );
    fc.assert(
      fc.property(fc.array(change, { maxLength: 40 }), (changes) => {
        const budget = { bytes: 0, maxBytes: 10_000 };
        const marks = new HashMarks(8, budget);
        const model = new Map<number, string>();
        for (const it of changes) {
          if (it.kind === 'clear') {
            marks.clear();
            model.clear();
          } else if (it.kind === 'salt') {
            marks.salt(hashes(...it.list), it.salt);
            for (const at of it.list) {
              if (it.salt !== null) model.set(at, `salted ${it.salt}`);
              else if (model.get(at) !== 'ambiguous') model.delete(at);
            }
          } else if (it.kind === 'forget') {
            marks.forget(hashes(...it.list));
            for (const at of it.list) if (model.get(at) !== 'ambiguous') model.delete(at);
          } else {
            marks.bar(hashes(...it.list), it.kind);
            for (const at of it.list) if (model.get(at) !== 'ambiguous') model.set(at, it.kind);
          }
          for (let at = 0; at < 8; at += 1) {
            const mark = marks.of({ lo: at, hi: 9 });
            const words = mark.kind === 'salted' ? `salted ${mark.salt}` : mark.kind;
            expect(words).toBe(model.get(at) ?? 'plain');
          }
          const salts = new Set([...model.values()].filter((words) => words.startsWith('salted')));
          expect(marks.salts).toBe(salts.size);
          expect(marks.size).toBe(model.size);
          // 40 per hash, 162 per salt of one letter: nothing is left over, nor given back twice.
          expect(budget.bytes).toBe(40 * model.size + 162 * salts.size);
        }
      }),
      { numRuns: 300 },
    );
  });
});
