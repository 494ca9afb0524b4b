// Faults of KV events, hashing and memory that users of other routers met, as tests. Threads by project: vllm, sgl (sglang), dyn
// (dynamo), trt (TensorRT-LLM), llm-d, aibrix, vllm-ascend, smg. What the threads are about → where the test is, if not here:
//
// | thread                                              | fault                                          | test                         |
// | --------------------------------------------------- | ---------------------------------------------- | ---------------------------- |
// | vllm#51875, vllm#47636, llm-d#1290                  | hashes that differ from process to process     | here                         |
// | dyn#2981, dyn#2924                                  | one engine hash for two contents               | here                         |
// | dyn#659, #671, #693; vllm-ascend#12002 #12012 #15428 | wrong parents                                 | here                         |
// | llm-d-kv-cache#663, #372; dyn#14314                 | unknown parents lost, and not counted          | here, orphans.test.ts        |
// | dyn#8751, vllm#40984, smg#1652, trt#5580            | groups of hybrid models                        | here, event-filter.test.ts   |
// | vllm#43258, vllm#51614, Infera#73                   | block sizes that are not the model's           | here, pages.test.ts          |
// | vllm#44451                                          | tokens that do not line up with hashes         | here                         |
// | llm-d-router#2153, #2235                            | pages smaller than blocks                      | here, pages.test.ts          |
// | sgl#24568, sgl#24579, dyn#8197                      | salts outside the hash, formulas of one side   | here, cache-salts.test.ts    |
// | llm-d-kv-cache#189, trt#18156, trt#18160            | adapters outside the hash                      | here                         |
// | vllm#28465, dyn#4577, dyn#11588                     | images that look alike                         | here, hash-blocks.test.ts    |
// | dyn#11984, aibrix#1721, production-stack#1062       | no events although enabled                     | src/cli/readiness.test.ts    |
// | aibrix#1559, aibrix#1720                            | arrays where maps were expected                | here, decode-batch.test.ts   |
// | dyn#10774, #11678, #14878, #11785, #4429; production-stack#687 #707 | memory that grows with traffic | here                         |
// | dyn#7800, dyn#8473                                  | duplicates counted as more                     | here                         |
// | dyn#10977, dyn#5190, dyn#3597                       | ranks that share or wipe each other            | here                         |
// | sgl#38486, sgl#29709, sgl#29948                     | blocks on lower tiers only                     | here                         |
// | sgl#29265, dyn#10836                                | one removal per page, work per removed block   | here                         |
// | aibrix#2329, aibrix#2330                            | identity by last hash and length               | here                         |
// | aibrix#1131                                         | changes while it is read                       | here                         |
// | dyn `/dump` (reference, own finding)                | ids beyond 2^53                                | here                         |
// | dyn#7209, #14167; llm-d-router#1737 #1887; sgl#32728 #39750; vllm#45174; Mooncake#4159 | lost and replayed batches | tests of the stream |
import { encode } from '@msgpack/msgpack';
import { describe, expect, it } from 'vitest';
import { blockHashSeed, hashBlocks, type OwnerSlot, u64FromBigInt } from '../kv/index.ts';
import { bench, hasher, hashes, removed, stored } from './applier.fixtures.ts';
import type { KvEvent } from './types.ts';

describe('identity', () => {
  it('vllm#51875, llm-d#1290: engines with hashes of their own each share one index', () => {
    const { send, depth } = bench();
    send(1, stored([10, 11], [1, 2, 3, 4]));
    send(2, stored([70, 71], [1, 2, 3, 4]));
    expect([depth(1, [1, 2, 3, 4]), depth(2, [1, 2, 3, 4])]).toEqual([2, 2]);
    send(2, removed([71]));
    expect([depth(1, [1, 2, 3, 4]), depth(2, [1, 2, 3, 4])]).toEqual([2, 1]);
  });

  it('dyn#2981: a hash that comes to stand for other tokens changes nothing that is there', () => {
    const { send, depth, index } = bench();
    send(1, stored([10, 11], [1, 2, 3, 4]), stored([11], [9, 9], { after: 10 }), stored([10], [7, 7]));
    expect(depth(1, [1, 2, 3, 4])).toBe(2);
    expect(depth(1, [1, 2, 9, 9])).toBe(1);
    expect(depth(1, [7, 7])).toBe(0);
    expect(index.stats()).toMatchObject({ blocks: 2, conflictingStores: 2 });
  });

  it('dyn#671, vllm-ascend#12002: blocks hang on the parent that the event names, none on a guess', () => {
    const { send, depth } = bench();
    // A store that skips cached blocks names the last of them.
    send(1, stored([10, 11, 12], [1, 2, 3, 4, 5, 6]), stored([13, 14], [7, 8, 9, 9], { after: 12 }));
    expect(depth(1, [1, 2, 3, 4, 5, 6, 7, 8, 9, 9])).toBe(5);
    // Told with the wrong parent they are found behind that one only, where a prompt cannot have them.
    send(2, stored([10, 11, 12], [1, 2, 3, 4, 5, 6]), stored([13], [7, 8], { after: 10 }));
    expect(depth(2, [1, 2, 3, 4, 5, 6, 7, 8])).toBe(3);
    expect(depth(2, [7, 8])).toBe(0);
  });

  it('aibrix#2329: chains of one length with the same last block are told apart', () => {
    const { send, depth } = bench();
    send(1, stored([10, 11], [1, 2, 5, 6]));
    send(2, stored([20, 21], [3, 4, 5, 6]));
    expect([depth(1, [1, 2, 5, 6]), depth(2, [1, 2, 5, 6])]).toEqual([2, 0]);
    expect([depth(1, [3, 4, 5, 6]), depth(2, [3, 4, 5, 6])]).toEqual([0, 2]);
  });

  it('aibrix#1131: engines change what is being read, and the reader sees what was there or what is', () => {
    const { send, depth, applier, index } = bench();
    const own = (owner: OwnerSlot): number[] => [100 * owner, 100 * owner + 1];
    const owners = Array.from({ length: 8 }, (_, owner) => owner);
    for (const owner of owners) send(owner, stored(own(owner), [1, 2, 3, 4]));
    const prompt = hashBlocks(hasher, Uint32Array.of(1, 2, 3, 4), 2, blockHashSeed({}));
    const match = index.find(prompt.local, prompt.sequence, ['device']);
    expect(match.count).toBe(8);
    const page = index.dump(0, 3);
    // Between the pages and while a match is in use: removals, a clear, an owner that goes, new blocks, one that comes back.
    send(0, removed(own(0)));
    send(1, { kind: 'cleared' });
    applier.forget(2);
    index.clear(2, 'all');
    send(3, stored([900, 901, 902], [5, 6, 7, 8, 9, 10]));
    send(0, stored(own(0), [1, 2, 3, 4]));
    const rows = Array.from({ length: match.count }, (_, row) => match.depthPerTier[0]?.[row] ?? 0);
    expect(rows.every((blocks) => blocks >= 0 && blocks <= 2)).toBe(true);
    let blocks = page.blocks.length;
    for (let cursor = page.cursor; cursor !== null; ) {
      const more = index.dump(cursor, 3);
      blocks += more.blocks.length;
      cursor = more.cursor;
    }
    expect(blocks).toBeGreaterThanOrEqual(3);
    expect(owners.map((owner) => depth(owner, [1, 2, 3, 4]))).toEqual([2, 0, 0, 2, 2, 2, 2, 2]);
    expect(depth(3, [5, 6, 7, 8, 9, 10])).toBe(3);
  });

  it('sgl#24568: one hash under two salts gives nobody another’s blocks', () => {
    const { send, depth, applier } = bench();
    send(1, stored([10], [1, 2], { cacheSalt: 'a' }), stored([10], [1, 2], { cacheSalt: 'b' }));
    send(1, stored([11], [3, 4], { after: 10 }));
    expect(depth(1, [1, 2, 3, 4], { cacheSalt: 'b' })).toBe(0);
    expect(depth(1, [1, 2, 3, 4], { cacheSalt: 'a' })).toBe(1);
    expect(depth(1, [1, 2, 3, 4])).toBe(0);
    expect(applier.feed(1)?.rejected).toEqual({ ambiguous_cache_namespace: 2 });
  });

  it('dyn#8197, trt#18156, llm-d-kv-cache#189: both sides seed adapter and salt by one formula', () => {
    const { send, depth } = bench();
    const both = { loraName: 'adapter-a', cacheSalt: 'tenant-a' };
    send(1, stored([10], [1, 2], both), stored([20], [1, 2], { loraName: 'adapter-b' }));
    expect(depth(1, [1, 2], both)).toBe(1);
    expect(depth(1, [1, 2], { loraName: 'adapter-b' })).toBe(1);
    expect(depth(1, [1, 2], { loraName: 'adapter-a' })).toBe(0);
    expect(depth(1, [1, 2])).toBe(0);
    expect(blockHashSeed(both)).toEqual(u64FromBigInt(10790858310771630931n));
  });

  it('vllm#28465, dyn#4577: two images over the same placeholders are two blocks', () => {
    const { send, depth, index } = bench();
    const [cat, dog] = [Uint32Array.of(1, 1), Uint32Array.of(2, 1)];
    send(1, stored([10], [7, 7], { multimodal: [cat] }), stored([20], [7, 7], { multimodal: [dog] }));
    expect(index.stats().blocks).toBe(2);
    expect(depth(1, [7, 7])).toBe(0);
    for (const items of [cat, dog]) {
      const form = { multimodal: [items] };
      const prompt = hashBlocks(hasher, Uint32Array.of(7, 7), 2, blockHashSeed({}), form);
      expect(index.find(prompt.local, prompt.sequence, ['device']).count).toBe(1);
    }
  });

  it('dyn /dump: hashes beyond 2^53 keep all their bits, signed or not', () => {
    const { applier, index } = bench();
    const odd = 2n ** 63n + 1n;
    const store = (hash: bigint, parent: bigint | null, tokens: number[]): unknown[] => [
      'BlockStored',
      [hash],
      parent,
      tokens,
      2,
    ];
    const events = [store(odd, null, [1, 2]), store(odd + 1n, BigInt.asIntN(64, odd), [3, 4])];
    applier.onBatch(1, 0, encode([0, events], { useBigInt64: true }));
    expect(index.dump(0, 10).blocks.map(({ external }) => external)).toEqual([
      { lo: 1, hi: 0x80000000 },
      { lo: 2, hi: 0x80000000 },
    ]);
  });
});

describe('stores that do not fit', () => {
  it('dyn#14314, llm-d-kv-cache#663: unknown parents wait, are shown, and are counted in blocks when dropped', () => {
    const { send, applier, gauge, counts, index } = bench({ eventLimits: { orphanBlocks: 4 } });
    send(1, stored([11, 12, 13], [3, 4, 5, 6, 7, 8], { after: 10 }));
    expect(gauge('pointsman_kv_orphan_blocks')).toBe(3);
    send(1, stored([21, 22, 23], [3, 4, 5, 6, 7, 8], { after: 20 }));
    expect(applier.feed(1)?.rejectedBlocks).toEqual({ unknown_parent: 2 });
    expect(counts.get('pointsman_kv_blocks_rejected_total unknown_parent')).toBe(2);
    expect(index.stats().blocks).toBe(0);
  });

  it('vllm#43258, vllm#51614, Infera#73: other block sizes are put together or refused in words, never unseen', () => {
    const { send, applier, depth } = bench({ blockSizeOf: () => 4 });
    send(
      1,
      stored([10], [1, 2, 3, 4, 5, 6, 7, 8], { blockSize: 8 }),
      stored([20], [1, 2, 3], { blockSize: 3 }),
    );
    expect(applier.feed(1)).toMatchObject({ mismatchedBlockSize: 3, rejectedBlocks: { block_size: 2 } });
    send(1, stored([30, 31], [1, 2, 3, 4], { blockSize: 2, tier: 'host' }));
    expect(depth(1, [1, 2, 3, 4], { blockSize: 4, tier: 'host' })).toBe(1);
  });

  it('vllm#44451: tokens that do not line up with the hashes are refused whole, with what hangs on them', () => {
    const { send, applier, depth, asked } = bench();
    send(1, stored([10, 11], [1, 2, 3, 4, 5, 6]), stored([12], [5, 6], { after: 11 }));
    expect(applier.feed(1)?.rejectedBlocks).toEqual({ token_count: 2, unusable_parent: 1 });
    expect([depth(1, [1, 2]), depth(1, [5, 6]), asked.length]).toEqual([0, 0, 0]);
  });

  it('llm-d-router#2153: pages of one token match prompts in blocks', () => {
    const { send, depth } = bench({ blockSizeOf: () => 16 });
    const tokens = Array.from({ length: 40 }, (_, at) => at + 1);
    tokens.forEach((token, at) => {
      send(1, stored([100 + at], [token], { blockSize: 1, ...(at === 0 ? null : { after: 99 + at }) }));
    });
    expect(depth(1, tokens, { blockSize: 16 })).toBe(2);
  });

  it('dyn#8751, smg#1652: a block that only a window’s group holds is not held', () => {
    const { send, depth } = bench();
    const scope = { groupIndex: 1, attentionKind: 'sliding_window', locality: null, unsupported: null };
    send(1, stored([10, 11], [1, 2, 3, 4], { scope }));
    expect(depth(1, [1, 2, 3, 4])).toBe(0);
    send(1, stored([10], [1, 2], { scope: { ...scope, groupIndex: 0, attentionKind: 'full_attention' } }));
    send(1, {
      kind: 'removed',
      external: hashes(10),
      tier: 'device',
      scope: { ...scope, attentionKind: null },
    });
    expect(depth(1, [1, 2, 3, 4])).toBe(1);
  });

  it('aibrix#1559: one stream may change between arrays and maps', () => {
    const { applier, depth } = bench();
    const asArray = ['BlockStored', [1], null, [1, 2], 2, null, 'GPU'];
    const asMap = {
      type: 'BlockStored',
      block_hashes: [2],
      parent_block_hash: 1,
      token_ids: [3, 4],
      block_size: 2,
    };
    applier.onBatch(1, 0, encode([0, [asArray], 0]));
    applier.onBatch(1, 1, encode([0, [asMap], 0]));
    applier.onBatch(
      1,
      2,
      encode({
        ts: 0,
        events: [
          ['BlockTransferred', [1]],
          { ...asMap, block_hashes: [3], parent_block_hash: 2, token_ids: [5, 6] },
        ],
      }),
    );
    expect(depth(1, [1, 2, 3, 4, 5, 6])).toBe(3);
    expect(applier.feed(1)).toMatchObject({ restarts: 0, stale: false, rejected: {} });
  });
});

describe('accounts and ranks', () => {
  it('dyn#7800: duplicates are counted as such and held once', () => {
    const { send, index } = bench();
    for (let i = 0; i < 5; i += 1) send(1, stored([10, 11], [1, 2, 3, 4]));
    expect(index.stats()).toMatchObject({ blocks: 2, residencies: 2, holdings: 2, duplicateStores: 8 });
  });

  it('dyn#10977, dyn#3597: ranks hold, and clear, for themselves', () => {
    const { applier, depth } = bench({ ownerOfRank: (owner, rank) => owner + rank });
    const events: KvEvent[] = [stored([10], [1, 2])];
    applier.onDecodedBatch(4, 0, { timestamp: 0, rank: 0, events });
    applier.onDecodedBatch(4, 1, { timestamp: 0, rank: 1, events });
    applier.onDecodedBatch(4, 2, { timestamp: 0, rank: 1, events: [{ kind: 'cleared' }] });
    expect([depth(4, [1, 2]), depth(5, [1, 2])]).toEqual([1, 0]);
  });

  it('sgl#38486: a block told on a lower tier alone is found there, behind what the device holds', () => {
    const { send, depth } = bench();
    send(1, stored([10], [1, 2]), stored([11], [3, 4], { after: 10, tier: 'disk' }));
    send(1, removed([11]));
    expect(depth(1, [1, 2, 3, 4])).toBe(1);
    expect(depth(1, [3, 4], { tier: 'disk' })).toBe(0);
    send(1, stored([10], [1, 2], { tier: 'disk' }));
    expect(depth(1, [1, 2, 3, 4], { tier: 'disk' })).toBe(2);
  });

  it('sgl#29265, dyn#10836: removing one by one or all at once leaves the same, with work per block that does not grow', () => {
    const all = Array.from({ length: 2000 }, (_, at) => 1 + at);
    const tokens = all.flatMap((hash) => [hash, 0]);
    const lookups = [1, 2000].map((step) => {
      const { send, index } = bench();
      send(1, stored(all, tokens));
      const before = index.stats().probes;
      for (let at = 0; at < all.length; at += step) send(1, removed(all.slice(at, at + step)));
      expect(index.stats().blocks).toBe(0);
      return index.stats().probes - before;
    });
    expect(lookups[0]).toBeLessThan(8 * all.length);
    expect(lookups[1]).toBeLessThan(8 * all.length);
  });
});

describe('memory', () => {
  /** Blocks come and go, every store of a chain of its own; what is held at a time never changes. */
  function churn(rounds: number, blockSize: number, salted: boolean): { bytes: number; held: number }[] {
    const { send, index, gauge } = bench({ blockSizeOf: () => 4 });
    const seen: { bytes: number; held: number }[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const from = 1 + round * 64;
      const external = Array.from({ length: 64 }, (_, at) => from + at);
      const tokens = external.flatMap((hash) => Array.from({ length: blockSize }, (_, at) => hash * 7 + at));
      send(1, stored(external, tokens, { blockSize, ...(salted ? { cacheSalt: `salt ${round}` } : null) }));
      // A store whose parent never comes, and a removal that cannot be resolved.
      send(1, stored([from + 10 ** 6], tokens.slice(0, blockSize), { blockSize, after: from + 10 ** 7 }));
      if (round > 0) send(1, removed([...external.map((hash) => hash - 64), from + 10 ** 8]));
      send(1, removed([from + 10 ** 6]));
      seen.push({
        bytes: index.stats().bytes,
        held: gauge('pointsman_kv_orphan_blocks') + gauge('pointsman_kv_pages'),
      });
    }
    return seen;
  }

  it.each([
    [4, false],
    [4, true],
    [1, false],
    [1, true],
  ])(
    'dyn#10774, #14878, #11785: is given back as blocks of %i tokens go (salted: %s)',
    (blockSize, salted) => {
      const seen = churn(300, blockSize, salted);
      const early = seen[30]!;
      const late = seen.at(-1)!;
      expect(late.bytes).toBeLessThanOrEqual(early.bytes);
      expect(late.held).toBe(early.held);
    },
  );

  it('dyn#4429: goes with the worker', () => {
    const owners: OwnerSlot[] = [1, 2, 3];
    const { send, applier, index, gauge } = bench({ blockSizeOf: () => 4 });
    for (const owner of owners) {
      send(owner, stored([1, 2, 3, 4], [1, 2, 3, 4], { blockSize: 1 }));
      send(owner, stored([9], [1], { blockSize: 1, after: 8 }));
    }
    for (const owner of owners) {
      index.clear(owner, 'all');
      applier.forget(owner);
    }
    expect(index.stats()).toMatchObject({ blocks: 0, holdings: 0 });
    expect(gauge('pointsman_kv_orphan_blocks') + gauge('pointsman_kv_pages')).toBe(0);
  });
});
