import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { blockHashSeed, hashBlocks } from '../kv/index.ts';
import { type Bench, bench, hasher, hashes, removed, stored } from './applier.fixtures.ts';
import type { KvEventApplierOptions } from './kv-event-applier.ts';
import type { BlockStoredEvent } from './types.ts';

const FOUR = { blockSize: 4 };

/** The model's blocks have 4 tokens. */
function pageBench(more: Partial<KvEventApplierOptions> = {}): Bench {
  return bench({ blockSizeOf: () => 4, ...more });
}

/** Pages of 1 token: page hashes and tokens, chained behind `after`. */
function pages(
  from: number,
  tokens: number[],
  more: Partial<BlockStoredEvent> & { after?: number } = {},
): BlockStoredEvent {
  return stored(
    tokens.map((_, i) => from + i),
    tokens,
    { blockSize: 1, ...more },
  );
}

describe('pages smaller than the model’s blocks', () => {
  it('become blocks, whether told one by one or many at once', () => {
    for (const step of [1, 2, 3, 10]) {
      const { send, depth, index } = pageBench();
      const tokens = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
      for (let at = 0; at < tokens.length; at += step) {
        const after = at === 0 ? {} : { after: 99 + at };
        send(1, pages(100 + at, tokens.slice(at, at + step), after));
      }
      expect(depth(1, tokens, FOUR)).toBe(2);
      expect(index.stats().blocks).toBe(2);
    }
  });

  it('may have any size that divides, and refuse others of the same owner while some are held', () => {
    const { send, depth, applier } = pageBench();
    send(1, stored([10, 11, 12], [1, 2, 3, 4, 5, 6], { blockSize: 2 }));
    expect(depth(1, [1, 2, 3, 4, 5, 6], FOUR)).toBe(1);
    send(1, stored([20], [1, 2, 3], { blockSize: 3 }), pages(30, [1, 2, 3, 4]));
    expect(applier.feed(1)).toMatchObject({ mismatchedBlockSize: 1, rejectedBlocks: { block_size: 5 } });
    send(1, removed([10, 11, 12]), pages(30, [1, 2, 3, 4]));
    expect(depth(1, [1, 2, 3, 4], FOUR)).toBe(1);
  });

  it('teach no block size: a page of 1 token is left out while the model’s is not known', () => {
    const sizes: number[] = [];
    const { send, applier, asked } = bench({ learnBlockSize: (_, size) => sizes.push(size) });
    send(1, pages(10, [1, 2, 3]));
    expect(sizes).toEqual([]);
    expect(applier.feed(1)).toMatchObject({ mismatchedBlockSize: 1, rejectedBlocks: { block_size: 3 } });
    expect(asked).toEqual([]);
  });

  it('take their block along when any of them is removed, and give it back when it returns', () => {
    for (const page of [100, 101, 102, 103]) {
      const { send, depth, applier } = pageBench();
      const tokens = [1, 2, 3, 4, 5, 6, 7, 8];
      send(1, pages(100, tokens));
      send(1, removed([page]));
      expect(depth(1, tokens, FOUR)).toBe(0);
      expect(applier.feed(1)?.unknownRemoves).toBe(0);
      const at = page - 100;
      send(1, pages(page, [tokens[at]!], at === 0 ? {} : { after: page - 1 }));
      expect(depth(1, tokens, FOUR)).toBe(2);
    }
  });

  it('count once however often they are told', () => {
    const { send, depth, index } = pageBench();
    send(1, pages(100, [1, 2, 3, 4]), pages(100, [1, 2, 3, 4]), pages(102, [3, 4], { after: 101 }));
    expect(index.stats().residencies).toBe(1);
    send(1, removed([103]));
    expect(depth(1, [1, 2, 3, 4], FOUR)).toBe(0);
    send(1, removed([103, 102, 101, 100]));
    expect(index.stats().blocks).toBe(0);
  });

  it('part within a block: each way on is a block of its own', () => {
    const { send, depth } = pageBench();
    send(1, pages(100, [1, 2, 3, 4]), pages(200, [7, 8], { after: 101 }));
    expect(depth(1, [1, 2, 3, 4], FOUR)).toBe(1);
    expect(depth(1, [1, 2, 7, 8], FOUR)).toBe(1);
    send(1, removed([201]));
    expect(depth(1, [1, 2, 7, 8], FOUR)).toBe(0);
    send(1, removed([101]));
    expect(depth(1, [1, 2, 3, 4], FOUR)).toBe(0);
  });

  it('lie on tiers of their own, and a clear of one leaves the others', () => {
    const { send, depth, index, gauge } = pageBench();
    send(1, pages(100, [1, 2, 3, 4]), pages(100, [1, 2, 3, 4], { tier: 'host' }));
    send(1, { kind: 'cleared', tier: 'device' });
    expect(depth(1, [1, 2, 3, 4], FOUR)).toBe(0);
    expect(depth(1, [1, 2, 3, 4], { ...FOUR, tier: 'host' })).toBe(1);
    send(1, { kind: 'cleared' });
    expect(index.stats().blocks).toBe(0);
    expect(gauge('pointsman_kv_pages')).toBe(0);
    send(1, pages(100, [5, 6, 7, 8]));
    expect(depth(1, [5, 6, 7, 8], FOUR)).toBe(1);
  });

  it('wait for their parent page, and inherit its salt and adapter', () => {
    const { send, depth, applier } = pageBench();
    send(1, pages(102, [3, 4, 5, 6, 7, 8], { after: 101 }));
    expect(applier.orphanBlocks(1)).toBe(6);
    send(1, pages(100, [1, 2], { cacheSalt: 't' }));
    expect(depth(1, [1, 2, 3, 4, 5, 6, 7, 8], { ...FOUR, cacheSalt: 't' })).toBe(2);
    expect(depth(1, [1, 2, 3, 4], FOUR)).toBe(0);
  });

  it('hold pairs of tokens: a block takes the token behind its last page', () => {
    const { send, depth } = pageBench({ tokenPairs: { of: () => true, learn() {} } });
    const pair = { blockSize: 1, bigrams: true };
    send(1, stored([100, 101, 102], [1, 2, 3, 4], pair));
    expect(depth(1, [1, 2, 3, 4, 5], { ...FOUR, bigrams: true })).toBe(0);
    send(1, stored([103, 104], [4, 5, 6], { ...pair, after: 102 }));
    expect(depth(1, [1, 2, 3, 4, 5], { ...FOUR, bigrams: true })).toBe(1);
  });

  it('bring their multimodal items into the block, each once', () => {
    const { send, index } = pageBench();
    const item = Uint32Array.of(42, 0);
    send(1, pages(100, [1, 7, 7, 2], { multimodal: [null, item, item, null] }));
    const seed = blockHashSeed({});
    const prompt = hashBlocks(hasher, Uint32Array.of(1, 7, 7, 2), 4, seed, { multimodal: [item] });
    expect(index.find(prompt.local, prompt.sequence, ['device']).count).toBe(1);
  });

  it('are bounded, per owner and together', () => {
    const { send, applier, gauge } = pageBench({ eventLimits: { pages: 5, allPages: 7 } });
    send(1, pages(100, [1, 2, 3, 4, 5, 6]));
    send(2, pages(100, [1, 2, 3]));
    expect(gauge('pointsman_kv_pages')).toBe(7);
    expect(applier.feed(1)?.rejected).toEqual({ page_capacity: 1 });
    expect(applier.feed(2)?.rejected).toEqual({ page_capacity: 1 });
    send(1, removed([104, 103]));
    send(2, pages(102, [3], { after: 101 }));
    expect(gauge('pointsman_kv_pages')).toBe(6);
    applier.forget(2);
    expect(gauge('pointsman_kv_pages')).toBe(3);
  });

  it('are refused where a hash stands for another page', () => {
    const { send, depth, applier } = pageBench();
    send(1, pages(100, [1, 2, 3, 4]), pages(101, [9], { after: 100 }), pages(102, [3], { after: 100 }));
    expect(applier.feed(1)?.rejected).toEqual({ hash_conflict: 2 });
    expect(depth(1, [1, 2, 3, 4], FOUR)).toBe(1);
    send(1, stored([200, 200], [1, 2], { blockSize: 1 }));
    expect(applier.feed(1)?.rejected).toEqual({ hash_conflict: 2, self_reference: 1 });
  });

  it('share an owner with whole blocks, as of another tier', () => {
    const { send, depth } = pageBench();
    send(1, stored([10], [1, 2, 3, 4], { blockSize: 4 }), pages(100, [1, 2, 3, 4], { tier: 'host' }));
    expect(depth(1, [1, 2, 3, 4], FOUR)).toBe(1);
    expect(depth(1, [1, 2, 3, 4], { ...FOUR, tier: 'host' })).toBe(1);
    send(1, removed([10]), removed([102], 'host'));
    expect(depth(1, [1, 2, 3, 4], { ...FOUR, tier: 'host' })).toBe(0);
  });
});

/** A radix cache of pages: paths of tokens over a small alphabet; a page's hash is its path's number. */
class RadixModel {
  readonly held = new Map<string, number>();
  #next = 1;

  /** Stores a path; returns the pages that are new. */
  insert(path: number[]): { page: number; token: number; parent: number | null }[] {
    const fresh: { page: number; token: number; parent: number | null }[] = [];
    let parent: number | null = null;
    path.forEach((token, at) => {
      const key = path.slice(0, at + 1).join(' ');
      let page = this.held.get(key);
      if (page === undefined) {
        page = this.#next;
        this.#next += 1;
        this.held.set(key, page);
        fresh.push({ page, token, parent });
      }
      parent = page;
    });
    return fresh;
  }

  /** Removes the n-th leaf; returns its page. */
  evict(n: number): number | null {
    const keys = [...this.held.keys()];
    const leaves = keys.filter((key) => !keys.some((other) => other.startsWith(`${key} `)));
    const leaf = leaves[n % Math.max(1, leaves.length)];
    if (leaf === undefined) return null;
    const page = this.held.get(leaf)!;
    this.held.delete(leaf);
    return page;
  }

  /** Whole blocks held of a prompt. */
  depth(path: number[], blockSize: number): number {
    let blocks = 0;
    while (
      (blocks + 1) * blockSize <= path.length &&
      this.held.has(path.slice(0, (blocks + 1) * blockSize).join(' '))
    ) {
      blocks += 1;
    }
    return blocks;
  }
}

describe('pages of a radix cache', () => {
  it('give the blocks that the cache holds, after any inserts and evictions', () => {
    const path = fc.array(fc.nat(1), { minLength: 1, maxLength: 13 });
    const step = fc.oneof(
      { weight: 2, arbitrary: path.map((tokens) => ({ tokens, evict: 0 })) },
      { weight: 1, arbitrary: fc.nat(50).map((evict) => ({ tokens: null, evict })) },
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), fc.boolean(), path, (steps, batched, probe) => {
        const { send, depth, applier, gauge } = pageBench();
        const model = new RadixModel();
        const asked = [probe];
        for (const { tokens, evict } of steps) {
          if (tokens === null) {
            const page = model.evict(evict);
            if (page !== null) send(1, removed([page]));
            continue;
          }
          asked.push(tokens);
          const fresh = model.insert(tokens);
          const [first] = fresh;
          if (batched && first !== undefined) {
            const after = first.parent === null ? {} : { after: first.parent };
            send(
              1,
              pages(
                first.page,
                fresh.map(({ token }) => token),
                after,
              ),
            );
          } else {
            for (const { page, token, parent } of fresh) {
              send(1, pages(page, [token], parent === null ? {} : { after: parent }));
            }
          }
        }
        for (const tokens of asked) expect(depth(1, tokens, FOUR)).toBe(model.depth(tokens, 4));
        expect(gauge('pointsman_kv_pages')).toBe(model.held.size);
        expect(applier.feed(1)?.rejected ?? {}).toEqual({});
        expect(applier.orphanBlocks(1)).toBe(0);
        expect(hashes(1).length).toBe(2);
      }),
      { numRuns: 300 },
    );
  });
});
