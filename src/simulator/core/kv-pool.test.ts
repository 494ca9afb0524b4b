// The pool against a model in plain objects: random admissions, growth, releases and retentions.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { KvPool } from './kv-pool.ts';
import type { RetainDeclaration } from './retentions.ts';

/** One physical block of the model. */
interface ModelBlock {
  /** The pool's number for it. */
  copy: number;
  hash: number | null;
  refs: number;
  releasedAt: number;
  /** Used by another than the one it was allocated for. */
  reused: boolean;
  declarations: ModelDeclaration[];
}

interface ModelDeclaration {
  readonly declarer: string;
  readonly priority: number;
  readonly until: number;
  readonly made: number;
}

/** The highest priority that holds; −1 = none. */
const priorityOf = (block: ModelBlock): number =>
  Math.max(-1, ...block.declarations.map(({ priority }) => priority));

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
      unused.sort((a, b) => priorityOf(a) - priorityOf(b) || a.releasedAt - b.releasedAt);
      const victim = unused[0];
      if (victim === undefined) return null;
      this.blocks.delete(victim);
      if (this.copiesOf(victim.hash!).length === 0) this.removed.push(victim.hash!);
    }
    const block = { copy: -1, hash: null, refs: 1, releasedAt: 0, reused: false, declarations: [] };
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
    const over = [...this.blocks].flatMap((block) =>
      block.declarations.filter(({ until }) => until <= now).map((ended) => ({ block, ended })),
    );
    over.sort((a, b) => a.ended.until - b.ended.until || a.ended.made - b.ended.made);
    for (const { block, ended } of over) {
      const before = priorityOf(block);
      block.declarations = block.declarations.filter((one) => one !== ended);
      if (block.refs === 0 && priorityOf(block) !== before) this.#stamp(block);
    }
  }

  /** Blocks that others than `declarer` do not retain, that nobody holds. */
  mayGo(block: ModelBlock, declarer: string | null): boolean {
    return block.refs === 0 && block.declarations.every((one) => one.declarer === declarer);
  }

  evict(hash: number, declarer: string | null): 'evicted' | 'missing' | 'in_use' {
    const copies = this.copiesOf(hash);
    if (copies.length === 0) return 'missing';
    if (!copies.every((block) => this.mayGo(block, declarer))) return 'in_use';
    for (const block of copies) this.blocks.delete(block);
    this.removed.push(hash);
    return 'evicted';
  }

  evictOwn(block: ModelBlock, declarer: string | null): boolean {
    if (!this.blocks.has(block) || block.hash === null || block.reused || !this.mayGo(block, declarer))
      return false;
    this.blocks.delete(block);
    if (this.copiesOf(block.hash).length === 0) this.removed.push(block.hash);
    return true;
  }

  retain(block: ModelBlock, declaration: ModelDeclaration): void {
    block.declarations = block.declarations.filter(({ declarer }) => declarer !== declaration.declarer);
    block.declarations.push(declaration);
    if (block.refs === 0) this.#stamp(block);
  }

  unretain(block: ModelBlock, declarer: string): boolean {
    const before = priorityOf(block);
    const kept = block.declarations.filter((one) => one.declarer !== declarer);
    const released = kept.length < block.declarations.length;
    block.declarations = kept;
    if (block.refs === 0 && priorityOf(block) !== before) this.#stamp(block);
    return released;
  }

  get retained(): number {
    return [...this.blocks].filter((block) => block.declarations.length > 0).length;
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

const KINDS = [
  ...(['admit', 'grow', 'cache', 'release', 'retain', 'unretain', 'evict', 'touch', 'expire'] as const),
  'retain',
] as const;
const operation = fc.record({
  kind: fc.constantFrom(...KINDS),
  family: fc.integer({ min: 0, max: 3 }),
  depth: fc.integer({ min: 1, max: 6 }),
  pick: fc.nat(),
  priority: fc.integer({ min: 1, max: 4 }),
  ttl: fc.integer({ min: 1, max: 30 }),
  declarer: fc.constantFrom('a', 'b', 'c', 'd'),
});

function declaration(declarer: string, priority: number, expiresAt: number): RetainDeclaration {
  const action = { messageId: 'm', actionId: 'a1', kept: 0, evicted: 0, lapsed: 0 };
  return { action, declarer, priority, expiresAt, blocks: [], held: 0, order: 0 };
}

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
        fc.integer({ min: 0, max: 12 }),
        fc.array(operation, { maxLength: 120 }),
        (capacity, limit, operations) => {
          const removed: number[] = [];
          const pool = new KvPool(capacity, (lo) => removed.push(lo), limit);
          const model = new ModelPool(capacity);
          const holders: Holder[] = [];
          const stored = new Set<number>();
          let now = 0;
          for (const { declarer, depth, family, kind, pick, priority, ttl } of operations) {
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
                taken.reused = true;
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
              if (pick % 3 !== 0) continue;
              for (const block of holder.model.toReversed()) {
                // A private copy that was let go of is no block any more.
                if (block.hash === null) continue;
                expect(pool.evictOwn(block.copy, declarer, 'hint')).toBe(model.evictOwn(block, declarer));
              }
            } else if (kind === 'retain' && model.copiesOf(hash).length < 2) {
              const block = model.copiesOf(hash)[0];
              const full = block?.declarations.length === 0 && model.retained >= limit;
              expect(pool.retain(hash, 0, declaration(declarer, priority, now + ttl))).toBe(
                block === undefined ? 'missing' : full ? 'no_room' : 'retained',
              );
              if (block && !full) model.retain(block, { declarer, priority, until: now + ttl, made: now });
            } else if (kind === 'unretain' && model.copiesOf(hash).length < 2) {
              const block = model.copiesOf(hash)[0];
              const released = block !== undefined && model.unretain(block, declarer);
              expect(pool.unretain(hash, 0, declarer)).toBe(released);
            } else if (kind === 'evict') {
              const by = pick % 2 === 0 ? null : declarer;
              expect(pool.evict(hash, 0, by, 'hint')).toBe(model.evict(hash, by));
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
            expect(pool.retained).toBe(model.retained);
          }
          const listed = pool.residentBlocks().filter((_, word) => word % 2 === 0);
          const resident = new Set(listed);
          expect(listed.length).toBe(resident.size);
          expect(resident).toEqual(new Set([...model.blocks].flatMap((block) => block.hash ?? [])));
          for (const hash of resident) expect(stored.has(hash)).toBe(true);
        },
      ),
      { numRuns: 600 },
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
    pool.retain(4, 0, declaration('a', 7, 1e9));
    pool.retain(3, 0, declaration('a', 3, 1e9));
    const other = new Int32Array(4);
    expect(pool.allocate(other, 0, 4)).toBe(4);
    expect(removed).toEqual([2, 1, 3, 4]);
  });
});
