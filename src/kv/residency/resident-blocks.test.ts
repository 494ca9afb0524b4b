import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ResidentBlocks } from './resident-blocks.ts';

test('trying the next row first finds what the table finds, while rows go and are reused', () => {
  const step = fc.record({ hash: fc.nat(9), held: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const blocks = new ResidentBlocks();
      // Hash h is (h >> 1, h & 1) with all bits turned: neighbours differ in one half only.
      const list = Uint32Array.from({ length: 20 }, (_, i) => ~(i % 2 === 0 ? i >> 2 : (i >> 1) & 1));
      for (const { hash, held } of steps) {
        const block = blocks.find(list, hash);
        if (held && block === -1) blocks.setTiers(blocks.add(list, list, hash, null, 0), 0, 1);
        if (!held && block !== -1) blocks.setTiers(block, 0, 0);
        for (let before = 0; before < 10; before++) {
          const start = blocks.find(list, before);
          if (start === -1) continue;
          const found = Array.from({ length: 10 }, (_, i) => blocks.findAfter(start, list, i));
          expect(found).toEqual(found.map((_, i) => blocks.find(list, i)));
        }
      }
    }),
    { numRuns: 100 },
  );
});

test('a row given back is not found by the words left in it', () => {
  const blocks = new ResidentBlocks();
  // The last row of the free list links to −1: with this hash its words are those of the block that was there.
  const list = Uint32Array.of(5, 0, 0xffffffff, 7);
  const first = blocks.add(list, list, 0, null, 0);
  blocks.setTiers(first, 0, 1);
  const gone = blocks.add(list, list, 1, null, 1);
  blocks.setTiers(gone, 0, 1);
  blocks.setTiers(gone, 0, 0);
  expect(gone).toBe(first + 1);
  expect(blocks.findAfter(first, list, 1)).toBe(-1);
});
