import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { copyPayload, MAX_PAYLOAD_BYTES, MAX_PAYLOAD_DEPTH, PayloadFault } from './hint-payload.ts';

const nested = (depth: number): object => (depth === 1 ? {} : { in: nested(depth - 1) });

describe('copying a payload', () => {
  it('keeps JSON, bigint and BigUint64Array as they are', () => {
    const json = fc.letrec((tie) => ({
      value: fc.oneof(
        { depthSize: 'small', withCrossShrink: true },
        fc.string(),
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        fc.boolean(),
        fc.constant(null),
        fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n }),
        fc
          .array(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), { maxLength: 5 })
          .map((all) => BigUint64Array.from(all)),
        fc.array(tie('value'), { maxLength: 4 }),
        fc.dictionary(fc.string(), tie('value'), { maxKeys: 4, noNullPrototype: true }),
      ),
    }));
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), json.value, { maxKeys: 5, noNullPrototype: true }),
        (payload) => {
          expect(copyPayload(payload)).toEqual(payload);
        },
      ),
    );
  });

  it('takes it out of the policy’s hands', () => {
    const hashes = BigUint64Array.of(1n, 2n);
    const list = [1, { deep: 'a' }];
    const payload = { hashes, list };
    const copy = copyPayload(payload);
    hashes[0] = 99n;
    list.push(3);
    (list[1] as { deep: string }).deep = 'changed';
    expect(copy).toEqual({ hashes: BigUint64Array.of(1n, 2n), list: [1, { deep: 'a' }] });
    expect(Object.isFrozen(copy) && Object.isFrozen(copy.list)).toBe(true);
  });

  it('keeps a key named __proto__ as a key', () => {
    const copy = copyPayload(JSON.parse('{"__proto__":{"admin":true}}'));
    expect(Object.keys(copy)).toEqual(['__proto__']);
    expect(Reflect.get({}, 'admin')).toBeUndefined();
    expect(Object.getPrototypeOf(copy)).toBe(Object.prototype);
  });

  it.each<[string, unknown]>([
    ['a function', { f() {} }],
    ['undefined', { a: undefined }],
    ['a symbol', { a: Symbol('s') }],
    ['NaN', { a: Number.NaN }],
    ['infinity', { a: [Number.POSITIVE_INFINITY] }],
    ['a date', { a: new Date(0) }],
    ['a map', { a: new Map() }],
    ['another typed array', { a: new Uint8Array(2) }],
    ['an integer beyond 64 bits', { a: 2n ** 64n }],
    ['a hole', { a: new Array(2) }],
    ['a list as payload', []],
    ['null as payload', null],
    ['a string as payload', 'x'],
  ])('refuses %s', (_, payload) => {
    expect(() => copyPayload(payload)).toThrow(PayloadFault);
  });

  it(`takes ${MAX_PAYLOAD_DEPTH} levels and not one more, so a cycle ends too`, () => {
    expect(copyPayload(nested(MAX_PAYLOAD_DEPTH))).toEqual(nested(MAX_PAYLOAD_DEPTH));
    expect(() => copyPayload(nested(MAX_PAYLOAD_DEPTH + 1))).toThrow('nests deeper than 16');
    const cycle: Record<string, unknown> = {};
    cycle.self = cycle;
    expect(() => copyPayload(cycle)).toThrow('nests deeper than 16');
  });

  it('takes 1 MiB and not more, counted as JSON, and does not walk a sparse list', () => {
    const fits = 'x'.repeat(MAX_PAYLOAD_BYTES - 8);
    expect(copyPayload({ a: fits })).toEqual({ a: fits });
    expect(() => copyPayload({ a: `${fits}x` })).toThrow('larger than 1048576 bytes');
    expect(() => copyPayload({ a: 'ü'.repeat(MAX_PAYLOAD_BYTES / 2) })).toThrow('larger');
    expect(() => copyPayload({ a: new BigUint64Array(49_932) })).toThrow('larger');
    expect(() => copyPayload({ a: new Array(2 ** 32 - 1) })).toThrow('larger');
  });

  it('counts the hashes that are there, whatever their array says, before it copies them', () => {
    const modest = Object.defineProperty(new BigUint64Array(49_932), 'length', { value: 1 });
    expect(() => copyPayload({ a: modest })).toThrow('larger');
    const posing: unknown = Object.create(BigUint64Array.prototype, {
      [Symbol.iterator]: {
        value: function* () {
          for (;;) yield 1n;
        },
      },
    });
    expect(() => copyPayload({ a: posing })).toThrow(TypeError);
  });
});
