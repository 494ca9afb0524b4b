import fc from 'fast-check';
import { expect, test } from 'vitest';
import { exactJsonStringify } from './exact-json.ts';

test('a u64 is written with every digit', () => {
  expect(exactJsonStringify({ worker_id: 18446744073709551615n })).toBe('{"worker_id":18446744073709551615}');
});

test('typed arrays become lists of bare integers', () => {
  expect(exactJsonStringify(BigUint64Array.of(0n, 16900403811276279622n))).toBe('[0,16900403811276279622]');
  expect(exactJsonStringify({ ids: Uint32Array.of(1, 4294967295), none: new BigUint64Array() })).toBe(
    '{"ids":[1,4294967295],"none":[]}',
  );
});

test('anything JSON can hold is written exactly as JSON.stringify writes it', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), fc.integer({ min: 0, max: 4 }), (value, indent) => {
      expect(exactJsonStringify(value, indent)).toBe(JSON.stringify(value, null, indent));
    }),
  );
});

test('undefined, functions, holes, dates and non-finite numbers follow JSON.stringify', () => {
  const value = {
    gone: undefined,
    call: () => 1,
    list: [undefined, Number.NaN, Number.POSITIVE_INFINITY],
    sparse: new Array(2),
    at: new Date(0),
    text: '\u2028"\\\ud800',
  };
  expect(exactJsonStringify(value)).toBe(JSON.stringify(value));
  expect(exactJsonStringify(undefined)).toBe('null');
});

test('a value that contains itself is refused instead of overflowing the stack', () => {
  const loop: unknown[] = [];
  loop.push(loop);
  expect(() => exactJsonStringify(loop)).toThrow(
    new RangeError('a JSON value may nest 256 levels; this one is deeper or contains itself'),
  );
});
