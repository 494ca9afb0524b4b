import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ActivePrefixes, type HeldPrefix } from './active-prefixes.ts';

/** Sequence hashes of a chain of small block names: equal exactly where all blocks up to there are equal. */
function chain(blocks: readonly number[]): Uint32Array {
  const pairs = new Uint32Array(blocks.length * 2);
  let lo = 17;
  let hi = 42;
  blocks.forEach((block, index) => {
    lo = (Math.imul(lo, 0x9e3779b1) ^ Math.imul(block + 1, 0x85ebca6b)) >>> 0;
    hi = (Math.imul(hi ^ lo, 0xc2b2ae35) + block) >>> 0;
    pairs[2 * index] = lo;
    pairs[2 * index + 1] = hi;
  });
  return pairs;
}

const key = (pairs: Uint32Array, at: number): string => `${pairs[2 * at]}/${pairs[2 * at + 1]}`;

/** The plain definition: a reference count and a weight per (slot, sequence hash). */
class NaivePrefixes {
  readonly blocks = new Map<number, Map<string, { count: number; weight: number }>>();

  hold(slot: number, pairs: Uint32Array): number {
    const before = this.weight(slot);
    const held = this.blocks.get(slot) ?? new Map<string, { count: number; weight: number }>();
    this.blocks.set(slot, held);
    for (let at = 0; at < pairs.length / 2; at += 1) {
      const count = held.get(key(pairs, at))?.count ?? 0;
      held.set(key(pairs, at), { count: count + 1, weight: 1 });
    }
    return this.weight(slot) - before;
  }

  release(slot: number, pairs: Uint32Array): number {
    const before = this.weight(slot);
    const held = this.blocks.get(slot);
    for (let at = 0; at < pairs.length / 2; at += 1) {
      const block = held?.get(key(pairs, at));
      if (block !== undefined) block.count -= 1;
      if (block?.count === 0) held?.delete(key(pairs, at));
    }
    return before - this.weight(slot);
  }

  weigh(slot: number, pairs: Uint32Array, weight: number): number {
    const before = this.weight(slot);
    for (let at = pairs.length / 2 - 1; at >= 0; at -= 1) {
      const block = this.blocks.get(slot)?.get(key(pairs, at));
      if (block?.count !== 1) break;
      block.weight = weight;
    }
    return this.weight(slot) - before;
  }

  weight(slot: number): number {
    return [...(this.blocks.get(slot)?.values() ?? [])].reduce((sum, { weight }) => sum + weight, 0);
  }

  depth(slot: number, pairs: Uint32Array): number {
    const held = this.blocks.get(slot);
    let depth = 0;
    while (depth < pairs.length / 2 && held?.has(key(pairs, depth))) depth += 1;
    return depth;
  }
}

const promptArbitrary = fc.array(fc.nat(1), { maxLength: 12 }).map(chain);
const operationArbitrary = fc.oneof(
  fc.record({
    kind: fc.constant('hold' as const),
    slot: fc.oneof(fc.nat(1), fc.nat(11)),
    prompt: promptArbitrary,
  }),
  fc.record({ kind: fc.constant('release' as const), which: fc.nat(30) }),
  fc.record({ kind: fc.constant('weigh' as const), which: fc.nat(30), eighths: fc.nat(8) }),
  fc.record({ kind: fc.constant('measure' as const), prompt: promptArbitrary }),
);

describe('prefixes of active requests', () => {
  it('answers as a reference count and a weight per slot and hash do, after any operations', () => {
    fc.assert(
      fc.property(fc.array(operationArbitrary, { maxLength: 80 }), (operations) => {
        const prefixes = new ActivePrefixes();
        const naive = new NaivePrefixes();
        const active: { slot: number; prompt: Uint32Array; held: HeldPrefix | null }[] = [];
        for (const operation of operations) {
          if (operation.kind === 'hold') {
            const { slot, prompt } = operation;
            const held = prefixes.hold(slot, prompt, prompt.length / 2);
            expect(prefixes.changedBlocks).toBe(naive.hold(slot, prompt));
            active.push({ slot, prompt, held });
          } else if (operation.kind === 'release' && active.length > 0) {
            const [request] = active.splice(operation.which % active.length, 1);
            if (request?.held) {
              prefixes.release(request.slot, request.held);
              expect(prefixes.changedBlocks).toBe(naive.release(request.slot, request.prompt));
            }
          } else if (operation.kind === 'weigh') {
            const request = active[operation.which % Math.max(1, active.length)];
            if (request?.held) {
              const weight = operation.eighths / 8;
              prefixes.weigh(request.slot, request.held, weight);
              expect(prefixes.changedBlocks).toBe(naive.weigh(request.slot, request.prompt, weight));
            }
          } else if (operation.kind === 'measure') {
            prefixes.measure(operation.prompt, operation.prompt.length / 2);
            for (let slot = 0; slot < 12; slot += 1) {
              expect(prefixes.depthOf(slot)).toBe(naive.depth(slot, operation.prompt));
            }
          }
        }
        for (const { slot, prompt, held } of active) {
          if (held === null) continue;
          prefixes.release(slot, held);
          expect(prefixes.changedBlocks).toBe(naive.release(slot, prompt));
        }
        expect(prefixes.nodeCount).toBe(0);
      }),
      { numRuns: 400 },
    );
  });

  it('keeps one run per fork, however long the prompts are', () => {
    const prefixes = new ActivePrefixes();
    const shared = Array.from({ length: 1000 }, (_, index) => index);
    const first = chain([...shared, 1, 1, 1]);
    const second = chain([...shared, 2, 2, 2]);
    const heldFirst = prefixes.hold(0, first, 1003);
    expect(prefixes.nodeCount).toBe(1);
    const heldSecond = prefixes.hold(1, second, 1003);
    expect(prefixes.nodeCount).toBe(3);
    if (heldSecond) prefixes.release(1, heldSecond);
    expect(prefixes.nodeCount).toBe(1);
    if (heldFirst) prefixes.release(0, heldFirst);
    expect(prefixes.nodeCount).toBe(0);
  });

  it('joins the runs of a chain again once all of it weighs the same', () => {
    const prefixes = new ActivePrefixes();
    const held = prefixes.hold(0, chain([1, 2, 3, 4]), 4);
    if (held === null) throw new Error('nothing is held');
    prefixes.weigh(0, held, 0.5);
    expect(prefixes.changedBlocks).toBe(-2);
    const sharer = prefixes.hold(0, chain([1, 2]), 2);
    expect([prefixes.changedBlocks, prefixes.nodeCount]).toEqual([1, 2]);
    prefixes.weigh(0, held, 0.25);
    expect(prefixes.changedBlocks).toBe(-0.5);
    if (sharer) prefixes.release(0, sharer);
    expect([prefixes.changedBlocks, prefixes.nodeCount]).toEqual([0, 2]);
    prefixes.weigh(0, held, 0.125);
    expect([prefixes.changedBlocks, prefixes.nodeCount]).toEqual([-2 * 0.875 - 2 * 0.125, 1]);
    prefixes.release(0, held);
    expect([prefixes.changedBlocks, prefixes.nodeCount]).toEqual([0.5, 0]);
  });

  it('tells siblings apart whose hashes differ only in the bits that its map leaves out', () => {
    const prefixes = new ActivePrefixes();
    const one = Uint32Array.of(5, 0x00200000);
    const other = Uint32Array.of(5, 0x00400000);
    const heldOne = prefixes.hold(0, one, 1);
    const heldOther = prefixes.hold(1, other, 1);
    prefixes.measure(one, 1);
    expect([prefixes.depthOf(0), prefixes.depthOf(1)]).toEqual([1, 0]);
    prefixes.measure(other, 1);
    expect([prefixes.depthOf(0), prefixes.depthOf(1)]).toEqual([0, 1]);
    if (heldOne) prefixes.release(0, heldOne);
    prefixes.measure(other, 1);
    expect([prefixes.depthOf(0), prefixes.depthOf(1)]).toEqual([0, 1]);
    if (heldOther) prefixes.release(1, heldOther);
    expect(prefixes.nodeCount).toBe(0);
  });

  it('does not keep the hashes of a long ended prompt for a short prefix still in use', () => {
    const prefixes = new ActivePrefixes();
    const long = chain(Array.from({ length: 5000 }, (_, index) => index));
    const short = long.slice(0, 4);
    const heldLong = prefixes.hold(0, long, 5000);
    const heldShort = prefixes.hold(0, short, 2);
    if (heldLong) prefixes.release(0, heldLong);
    expect(heldShort?.sequence.length).toBeLessThanOrEqual(4);
  });
});
