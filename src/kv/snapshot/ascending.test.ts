import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ascending } from './ascending.ts';

const KEY = fc.oneof(fc.nat(3), fc.integer({ min: 0, max: 0xffffffff }));

/** The result, and the most elements between two steps. */
function run(keys: Uint32Array, perStep: number): { order: Uint32Array; steps: number } {
  const work = ascending(keys, perStep);
  for (let steps = 0; ; steps++) {
    const { done, value } = work.next();
    if (done === true) return { order: value, steps };
  }
}

describe('ascending', () => {
  it('agrees with a stable sort for any u32', () => {
    fc.assert(
      fc.property(fc.array(KEY), fc.integer({ min: 1, max: 5 }), (list, perStep) => {
        const keys = Uint32Array.from(list);
        const expected = [...keys.keys()].sort((a, b) => keys[a]! - keys[b]! || a - b);
        expect([...run(keys, perStep).order]).toEqual(expected);
      }),
    );
  });

  it('takes a step for every so many elements of its four passes', () => {
    expect(run(new Uint32Array(100), 10).steps).toBe(40);
    expect(run(new Uint32Array(0), 10)).toEqual({ order: new Uint32Array(0), steps: 0 });
  });
});
