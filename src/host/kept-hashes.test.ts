import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { keepAlone, keepTogether } from './kept-hashes.ts';

const lists = fc.array(fc.array(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), { maxLength: 300 }), {
  maxLength: 40,
});

describe('kept hash lists', () => {
  it('stay as they were, whatever becomes of their originals and of one another', () => {
    fc.assert(
      fc.property(lists, (all) => {
        const kept = all.map((list) => {
          const original = BigUint64Array.from(list);
          const copy = keepTogether(original, original.length);
          original.fill(1n);
          return copy;
        });
        expect(kept).toEqual(all.map((list) => BigUint64Array.from(list)));
        for (const [at, one] of kept.entries()) {
          one.fill(2n);
          for (const [later, other] of kept.slice(at + 1).entries())
            expect(other).toEqual(BigUint64Array.from(all[at + 1 + later]!));
        }
      }),
    );
  });

  it('share memory while they are short, so that one that is kept keeps little', () => {
    const one = keepTogether(BigUint64Array.of(1n), 1);
    const other = keepTogether(BigUint64Array.of(2n), 1);
    expect(other.buffer).toBe(one.buffer);
    expect(one.buffer.byteLength).toBeLessThanOrEqual(8192);
    expect(keepTogether(new BigUint64Array(1000), 1000).buffer.byteLength).toBe(8000);
    expect(keepAlone(BigUint64Array.of(1n)).buffer.byteLength).toBe(8);
  });

  it('take no room when their original is more than it says', () => {
    const before = keepTogether(BigUint64Array.of(7n), 1);
    expect(() => keepTogether(BigUint64Array.of(1n, 2n), 1)).toThrow(RangeError);
    const after = keepTogether(BigUint64Array.of(8n), 1);
    expect([before, after]).toEqual([BigUint64Array.of(7n), BigUint64Array.of(8n)]);
  });
});

it('keeps empty lists too, the first of all and one that comes when a slab is full', async () => {
  vi.resetModules();
  const { keepTogether } = await import('./kept-hashes.ts');
  const empty = new BigUint64Array(0);
  expect(keepTogether(empty, 0)).toEqual(empty);
  for (let at = 0; at < 1024 / 128; at += 1) {
    const hashes = BigUint64Array.from({ length: 128 }, (_, place) => BigInt(128 * at + place));
    expect(keepTogether(hashes, 128)).toEqual(hashes);
  }
  expect(keepTogether(empty, 0)).toEqual(empty);
  expect(keepTogether(BigUint64Array.of(7n), 1)).toEqual(BigUint64Array.of(7n));
});
