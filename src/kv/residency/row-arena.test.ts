import fc from 'fast-check';
import { expect, test } from 'vitest';
import { RowArena } from './row-arena.ts';

test('no two live rows share words, and growing keeps what rows hold', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.constant('take'), fc.nat(5000)), { maxLength: 900 }), (steps) => {
      const arena = new RowArena(3, 1);
      const live = new Map<number, number>();
      let stamp = 1;
      for (const step of steps) {
        if (step === 'take') {
          const id = arena.take();
          expect(live.has(id)).toBe(false);
          expect(id).toBeLessThan(arena.used);
          for (const word of [0, 1, 2]) arena.rows.set(id, word, stamp + word);
          live.set(id, stamp++);
        } else if (typeof step === 'number' && live.size > 0) {
          const id = [...live.keys()][step % live.size]!;
          live.delete(id);
          arena.give(id);
        }
      }
      expect(arena.live).toBe(live.size);
      for (const [id, mark] of live) {
        expect([0, 1, 2].map((word) => arena.rows.get(id, word))).toEqual([mark, mark + 1, mark + 2]);
      }
    }),
    { numRuns: 50 },
  );
});

test('rows that were given back are used before new ones', () => {
  const arena = new RowArena(2, 0);
  const ids = Array.from({ length: 1000 }, () => arena.take());
  for (const id of ids) arena.give(id);
  const again = ids.map(() => arena.take());
  expect(new Set(again)).toEqual(new Set(ids));
  expect(arena.used).toBe(1000);
});
