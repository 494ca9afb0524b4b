import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ResultSlab, SLAB_WORDS } from './result-slab.ts';

/** Blocks whose hashes fill a slab. */
const FULL = SLAB_WORDS / 4;

describe('ResultSlab', () => {
  it('gives every result room that no later one writes to', () => {
    const blocks = fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 2 * FULL }));
    fc.assert(
      fc.property(fc.array(blocks, { minLength: 1, maxLength: 40 }), (sizes) => {
        const slab = new ResultSlab();
        const memory = new Uint32Array(8 * FULL + 3);
        const results = sizes.map((size, turn) => {
          memory.fill(turn + 1);
          return slab.copy(memory, 3, size);
        });
        for (const [turn, { blocks, local, sequence }] of results.entries()) {
          expect([blocks, local.length, sequence.length]).toEqual([
            sizes[turn],
            2 * sizes[turn]!,
            2 * sizes[turn]!,
          ]);
          expect(local.every((word) => word === turn + 1)).toBe(true);
          expect(sequence.every((word) => word === turn + 1)).toBe(true);
        }
      }),
      { numRuns: 50 },
    );
  });

  it('copies the local hashes first and the sequence hashes behind them', () => {
    const { local, sequence } = new ResultSlab().copy(Uint32Array.of(9, 1, 2, 3, 4, 5, 6, 7, 8), 1, 2);
    expect([...local]).toEqual([1, 2, 3, 4]);
    expect([...sequence]).toEqual([5, 6, 7, 8]);
  });

  it('shares one buffer among prompts until it is full', () => {
    const slab = new ResultSlab();
    const memory = new Uint32Array(4 * FULL);
    const buffers = Array.from({ length: 17 }, () => slab.copy(memory, 0, FULL / 8).local.buffer);
    expect([new Set(buffers.slice(0, 8)).size, new Set(buffers).size]).toEqual([1, 3]);
  });

  it('gives what would take more than half a buffer one of its own, and goes on in the shared one', () => {
    const slab = new ResultSlab();
    const memory = new Uint32Array(4 * FULL);
    const small = slab.copy(memory, 0, 1).local.buffer;
    const large = slab.copy(memory, 0, FULL / 2 + 1);
    expect(large.local.buffer).not.toBe(small);
    expect(large.local.buffer.byteLength).toBe(16 * (FULL / 2 + 1));
    expect(slab.copy(memory, 0, 1).local.buffer).toBe(small);
  });
});
