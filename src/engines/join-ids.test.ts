import fc from 'fast-check';
import { expect, test } from 'vitest';
import { joinIds } from './join-ids.ts';

test('ids are written as join writes them', () => {
  const id = fc.oneof(
    fc.nat(0xffffffff),
    fc.constantFrom(0, 9, 10, 99, 100, 999_999_999, 1_000_000_000, 4294967295),
  );
  fc.assert(
    fc.property(fc.uint32Array({ maxLength: 30 }), fc.array(id, { maxLength: 30 }), (any, edges) => {
      for (const ids of [any, Uint32Array.from(edges)]) expect(joinIds(ids)).toBe(ids.join(','));
    }),
  );
});
