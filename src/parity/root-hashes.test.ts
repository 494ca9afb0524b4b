import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RootHashes } from './root-hashes.ts';

const engine = (slot: number, worker = slot) => ({ slot, worker: BigInt(worker) });

describe('what engines call the same block', () => {
  it('names the one that disagrees with the others', () => {
    const roots = new RootHashes();
    roots.named('g', 'b', engine(1), 10, 1);
    roots.named('g', 'b', engine(2), 10, 1);
    roots.named('g', 'b', engine(3), 77, 1);
    expect([...roots.disagreeing(1)]).toEqual([[3, [1, 2]]]);
    expect([...roots.disagreeing(2)]).toEqual([]);
    roots.forget(3);
    expect([...roots.disagreeing(1)]).toEqual([]);
  });

  it('names both where one stands against one, and takes the ranks of a worker for one voice', () => {
    const roots = new RootHashes();
    roots.named('g', 'b', engine(1, 1), 10, 0);
    roots.named('g', 'b', engine(2, 2), 20, 0);
    roots.named('g', 'b', engine(3, 2), 20, 0);
    expect([...roots.disagreeing(1).keys()]).toEqual([1, 2, 3]);
  });

  it('compares nobody across groups', () => {
    const roots = new RootHashes();
    roots.named('vllm', 'b', engine(1), 10, 0);
    roots.named('sglang', 'b', engine(2), 20, 0);
    expect([...roots.disagreeing(1)]).toEqual([]);
  });

  it('never names engines of one seed, in whatever order they speak and however many blocks there are', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 0, max: 9 }), fc.integer({ min: 0, max: 2000 })), {
          maxLength: 1500,
        }),
        (said) => {
          const roots = new RootHashes();
          for (const [slot, block] of said) roots.named('g', String(block), engine(slot), block * 7, block);
          expect(roots.disagreeing(1).size).toBe(0);
        },
      ),
      { numRuns: 30 },
    );
  });
});
