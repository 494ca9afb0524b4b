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

/** The plain definition: a reference count per (slot, sequence hash). */
class NaivePrefixes {
  readonly counts = new Map<number, Map<string, number>>();

  hold(slot: number, pairs: Uint32Array): number {
    const held = this.counts.get(slot) ?? new Map<string, number>();
    this.counts.set(slot, held);
    let added = 0;
    for (let at = 0; at < pairs.length / 2; at += 1) {
      const before = held.get(key(pairs, at)) ?? 0;
      if (before === 0) added += 1;
      held.set(key(pairs, at), before + 1);
    }
    return added;
  }

  release(slot: number, pairs: Uint32Array): number {
    const held = this.counts.get(slot) ?? new Map<string, number>();
    let removed = 0;
    for (let at = 0; at < pairs.length / 2; at += 1) {
      const left = (held.get(key(pairs, at)) ?? 0) - 1;
      if (left === 0) {
        held.delete(key(pairs, at));
        removed += 1;
      } else held.set(key(pairs, at), left);
    }
    return removed;
  }

  depth(slot: number, pairs: Uint32Array): number {
    const held = this.counts.get(slot);
    let depth = 0;
    while (depth < pairs.length / 2 && held?.has(key(pairs, depth))) depth += 1;
    return depth;
  }
}

const promptArbitrary = fc.array(fc.nat(1), { maxLength: 12 }).map(chain);
const operationArbitrary = fc.oneof(
  fc.record({ kind: fc.constant('hold' as const), slot: fc.nat(11), prompt: promptArbitrary }),
  fc.record({ kind: fc.constant('release' as const), which: fc.nat(30) }),
  fc.record({ kind: fc.constant('measure' as const), prompt: promptArbitrary }),
);

describe('prefixes of active requests', () => {
  it('answers as a reference count per slot and hash does, after any operations', () => {
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
          } else if (operation.kind === 'measure') {
            prefixes.measure(operation.prompt, operation.prompt.length / 2);
            for (let slot = 0; slot < 12; slot += 1) {
              expect(prefixes.depthOf(slot)).toBe(naive.depth(slot, operation.prompt));
            }
          }
        }
        for (const request of active) if (request.held) prefixes.release(request.slot, request.held);
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
