// The pool against a model in plain objects: random admissions, growth, releases and retentions.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { KvPool } from './kv-pool.ts';

/** One physical block of the model. */
interface ModelBlock {
  /** The pool's number for it. */
  copy: number;
  hash: number | null;
  refs: number;
  releasedAt: number;
  priority: number;
  retainedUntil: number;
}

/** The same rules, written for clarity: lists that are searched. */
class ModelPool {
  readonly blocks = new Set<ModelBlock>();
  readonly removed: number[] = [];
  readonly #capacity: number;
  #clock = 0;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  copiesOf(hash: number): ModelBlock[] {
    return [...this.blocks].filter((block) => block.hash === hash);
  }

  allocate(): ModelBlock | null {
    if (this.blocks.size === this.#capacity) {
      const unused = [...this.blocks].filter((block) => block.refs === 0);
      unused.sort((a, b) => a.priority - b.priority || a.releasedAt - b.releasedAt);
      const victim = unused[0];
      if (victim === undefined) return null;
      this.blocks.delete(victim);
      if (this.copiesOf(victim.hash!).length === 0) this.removed.push(victim.hash!);
    }
    const block = { copy: -1, hash: null, refs: 1, releasedAt: 0, priority: -1, retainedUntil: 0 };
    this.blocks.add(block);
    return block;
  }

  release(block: ModelBlock): void {
    block.refs -= 1;
    if (block.refs > 0) return;
    if (block.hash === null) this.blocks.delete(block);
    else this.#stamp(block);
  }

  expire(now: number): void {
    const over = [...this.blocks].filter((block) => block.priority >= 0 && block.retainedUntil <= now);
    for (const block of over) {
      block.priority = -1;
      if (block.refs === 0) this.#stamp(block);
    }
  }

  retain(block: ModelBlock, priority: number, until: number): void {
    block.priority = priority;
    block.retainedUntil = until;
    if (block.refs === 0) this.#stamp(block);
  }

  touch(block: ModelBlock): void {
    if (block.refs === 0) this.#stamp(block);
  }

  #stamp(block: ModelBlock): void {
    this.#clock += 1;
    block.releasedAt = this.#clock;
  }
}

interface Holder {
  readonly hashes: Uint32Array;
  readonly table: Int32Array;
  readonly model: ModelBlock[];
  cached: number;
}

const operation = fc.record({
  kind: fc.constantFrom('admit', 'grow', 'cache', 'release', 'retain', 'touch', 'expire'),
  family: fc.integer({ min: 0, max: 3 }),
  depth: fc.integer({ min: 1, max: 6 }),
  pick: fc.nat(),
});

const MAX_TABLE = 12;

/** Chain `family`: block i has hash family * 100 + i + 1, so chains of one family share prefixes. */
function chain(family: number): Uint32Array {
  const hashes = new Uint32Array(2 * MAX_TABLE);
  for (let index = 0; index < MAX_TABLE; index += 1) hashes[2 * index] = family * 100 + index + 1;
  return hashes;
}

describe('KvPool', () => {
  it('behaves as a model of searched lists, conserves blocks, and tells of evictions in the same order', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 12 }),
        fc.array(operation, { maxLength: 120 }),
        (capacity, operations) => {
          const removed: number[] = [];
          const pool = new KvPool(capacity, (lo) => removed.push(lo));
          const model = new ModelPool(capacity);
          const holders: Holder[] = [];
          const stored = new Set<number>();
          let now = 0;
          for (const { kind, family, depth, pick } of operations) {
            now += 1;
            const holder = holders[pick % Math.max(1, holders.length)];
            const hash = family * 100 + depth;
            if (kind === 'admit') {
              const next = {
                hashes: chain(family),
                table: new Int32Array(MAX_TABLE),
                model: [] as ModelBlock[],
                cached: 0,
              };
              const resident = pool.residentUntil(next.hashes, 0, depth);
              let expected = 0;
              while (expected < depth && model.copiesOf(family * 100 + expected + 1).length > 0)
                expected += 1;
              expect(resident).toBe(expected);
              const unused = pool.inactiveAmong(next.hashes, 0, resident);
              const before = pool.inactive;
              pool.acquire(next.hashes, 0, resident, next.table);
              expect(pool.inactive).toBe(before - unused);
              for (let index = 0; index < resident; index += 1) {
                // Which twin is taken is the pool's choice.
                const copies = model.copiesOf(family * 100 + index + 1);
                const taken = copies.find((block) => block.copy === next.table[index])!;
                taken.refs += 1;
                next.model.push(taken);
              }
              next.cached = resident;
              holders.push(next);
            } else if (kind === 'grow' && holder && holder.model.length < MAX_TABLE) {
              pool.expireRetained(now);
              const at = holder.model.length;
              const end = pool.allocate(holder.table, at, at + 1);
              model.expire(now);
              const block = model.allocate();
              expect(end).toBe(block === null ? at : at + 1);
              if (block !== null) {
                block.copy = holder.table[at]!;
                holder.model.push(block);
              }
            } else if (kind === 'cache' && holder && holder.cached < holder.model.length) {
              const at = holder.cached;
              const lo = holder.hashes[2 * at]!;
              const first = pool.cache(holder.table[at]!, lo, 0);
              expect(first).toBe(model.copiesOf(lo).length === 0);
              holder.model[at]!.hash = lo;
              holder.cached += 1;
              if (first) stored.add(lo);
            } else if (kind === 'release' && holder) {
              pool.release(holder.table, 0, holder.model.length);
              for (const block of holder.model.toReversed()) model.release(block);
              holders.splice(holders.indexOf(holder), 1);
            } else if (kind === 'retain' && model.copiesOf(hash).length < 2) {
              const block = model.copiesOf(hash)[0];
              expect(pool.retain(hash, 0, depth, now + 5)).toBe(block !== undefined);
              if (block) model.retain(block, depth, now + 5);
            } else if (kind === 'touch' && model.copiesOf(hash).length < 2) {
              const block = model.copiesOf(hash)[0];
              expect(pool.touch(hash, 0)).toBe(block !== undefined);
              if (block) model.touch(block);
            } else if (kind === 'expire') {
              pool.expireRetained(now);
              model.expire(now);
            }
            const unused = [...model.blocks].filter((block) => block.refs === 0).length;
            expect(pool.inactive).toBe(unused);
            expect(pool.active).toBe(model.blocks.size - unused);
            expect(pool.available).toBe(capacity - model.blocks.size + unused);
            expect(removed).toEqual(model.removed);
          }
          const listed = pool.residentBlocks().filter((_, word) => word % 2 === 0);
          const resident = new Set(listed);
          expect(listed.length).toBe(resident.size);
          expect(resident).toEqual(new Set([...model.blocks].flatMap((block) => block.hash ?? [])));
          for (const hash of resident) expect(stored.has(hash)).toBe(true);
        },
      ),
      { numRuns: 400 },
    );
  });

  it('grows without end when it is unlimited', () => {
    const pool = new KvPool(null, () => undefined);
    const table = new Int32Array(5000);
    expect(pool.allocate(table, 0, 5000)).toBe(5000);
    expect(new Set(table).size).toBe(5000);
    pool.release(table, 0, 5000);
    expect(pool.active).toBe(0);
  });

  it('gives up the end of a chain before its beginning, and retained blocks last, lower priority first', () => {
    const removed: number[] = [];
    const pool = new KvPool(4, (lo) => removed.push(lo));
    const hashes = chain(0);
    const table = new Int32Array(4);
    pool.allocate(table, 0, 4);
    for (let index = 0; index < 4; index += 1) pool.cache(table[index]!, hashes[2 * index]!, 0);
    pool.release(table, 0, 4);
    pool.retain(4, 0, 7, 1e9);
    pool.retain(3, 0, 3, 1e9);
    const other = new Int32Array(4);
    expect(pool.allocate(other, 0, 4)).toBe(4);
    expect(removed).toEqual([2, 1, 3, 4]);
  });
});
