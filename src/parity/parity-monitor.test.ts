// What users of other routers found out late, as words at once: each test is a thread, or a rule that keeps the words from crying wolf.
import { describe, expect, it } from 'vitest';
import { FINDINGS } from './finding-table.ts';
import { BLOCK, monitored, stored } from './monitor.fixtures.ts';

/** `blocks` whole blocks and one token, different for every number. */
const prompt = (number: number, blocks = 4): number[] =>
  Array.from({ length: blocks * BLOCK + 1 }, (_, at) => 100 * number + at);

const hashes = (number: number, blocks = 4): number[] =>
  Array.from({ length: blocks }, (_, at) => 1000 * number + at + 1);

describe('what engines do otherwise than the router believes', () => {
  it('says nothing of an engine whose blocks are those of its prompts', () => {
    const { says, answered, codes } = monitored();
    for (let nth = 1; nth <= 20; nth += 1) {
      says(1, stored(hashes(nth), prompt(nth).slice(0, 16)));
      answered(1, prompt(nth));
      answered(1, prompt(nth), { predictedTokens: 16, cachedTokens: 16 });
    }
    expect(codes()).toEqual([]);
  });

  it('sgl#27386, llm-d-router#2389: an engine that hashes other tokens than the router is named after three prompts and estimated', () => {
    const { says, answered, codes, sentences, estimated, monitor, slotOf } = monitored();
    for (let nth = 1; nth <= 3; nth += 1) {
      expect(codes()).toEqual([]);
      says(1, stored(hashes(nth), [7, 7, ...prompt(nth).slice(0, 14)]));
      answered(1, prompt(nth));
    }
    expect(sentences()).toEqual([
      'worker 1 rank 0: sees other tokens than the router hashes: its blocks differ from the router’s tokens at position 0',
    ]);
    expect(monitor.misleads(slotOf(1))).toBe(true);
    expect(estimated.at(-1)).toEqual({ worker: 1n, misleads: true });
  });

  it('hears nothing of a worker that left while it answered, and takes it for nobody else', () => {
    const { answered, fleet, monitor, slotOf } = monitored(1);
    const spec = fleet.worker(1n)?.spec;
    if (spec === undefined) throw new Error('there is a worker 1');
    const slot = slotOf(1);
    const late = (): void => answered(1, prompt(1), { slot, predictedTokens: 16, cachedTokens: 0 });
    late();
    expect(monitor.auditOf(slot)?.audit.summary.requests).toBe(1);
    fleet.remove(1n);
    late();
    expect(monitor.auditOf(slot)).toBeNull();
    fleet.add({ ...spec, id: 7n });
    expect(slotOf(7)).toBe(slot);
    late();
    expect(monitor.auditOf(slot)?.audit.summary.requests ?? 0).toBe(0);
    monitor.arrived(99, 0, null);
    expect(monitor.auditOf(99)).toBeNull();
  });

  it('dyn#392: an engine that reports hits on blocks it never announced is named, and why', () => {
    const { says, answered, codes } = monitored();
    says(1, stored(hashes(90), prompt(90).slice(0, 16)));
    for (let nth = 1; nth <= 8; nth += 1) answered(1, prompt(nth), { cachedTokens: 16 });
    expect(codes()).toEqual(['template', 'under_predicted']);
  });

  it('vllm-ascend#12002, dyn#671: a match that sticks at the first block is told as wrong parents', () => {
    const { says, answered, sentences } = monitored();
    for (let nth = 1; nth <= 3; nth += 1) {
      const tokens = prompt(nth);
      says(1, stored([1000 * nth + 1], tokens.slice(0, 4)));
      // Told behind the root of another prompt.
      const elsewhere = { parent: { lo: 1001, hi: 9 } };
      says(1, stored([1000 * nth + 7], [...tokens.slice(8, 12)], elsewhere));
      answered(1, tokens);
    }
    expect(sentences()).toEqual([
      'worker 1 rank 0: chains blocks to other parents than their prompt has: of 4 blocks of a prompt 1 are found',
    ]);
  });

  it('vllm#47636, vllm#51875: a hash seed per process is named by the engine that is alone with it', () => {
    const { says, codes } = monitored(3);
    for (let nth = 1; nth <= 2; nth += 1) {
      says(1, stored(hashes(nth), prompt(nth).slice(0, 16)));
      says(2, stored(hashes(nth), prompt(nth).slice(0, 16)));
      says(3, stored(hashes(nth + 50), prompt(nth).slice(0, 16)));
    }
    expect([codes(1), codes(2), codes(3)]).toEqual([[], [], ['hash_seed']]);
  });

  it('Infera#73, vllm#51614: blocks of another size are told with both sizes and the flag', () => {
    const { says, monitor } = monitored();
    says(1, stored([1], [1, 2, 3, 4, 5, 6], { blockSize: 6 }));
    expect(monitor.findings().map(({ code, remedy }) => [code, remedy])).toEqual([
      ['block_size', '--block-size 4 on the engine, or models.m.block_size: 6'],
    ]);
  });

  it('dyn#11984, aibrix#1721: a stream that is connected and silent while blocks are computed is told with the flags', () => {
    const { answered, monitor } = monitored();
    for (let nth = 1; nth <= 3; nth += 1) answered(1, prompt(nth));
    const [finding] = monitor.findings();
    expect(finding?.sentence).toBe(
      'worker 1 rank 0: computes blocks and announces none: tcp://e:1 is connected and silent',
    );
    expect(finding?.remedy).toContain('"enable_kv_cache_events":true');
  });

  it('production-stack#1062: nobody at an event endpoint is told of a worker that answers', () => {
    const { codes, streams } = monitored();
    streams.connected = false;
    expect(codes()).toEqual(['not_connected']);
  });

  it('sgl#24568, sgl#24579: an engine that finds one tenant’s blocks for another is told', () => {
    const { says, answered, codes } = monitored();
    for (let nth = 1; nth <= 3; nth += 1) {
      says(1, stored(hashes(nth), prompt(nth).slice(0, 16)));
      answered(1, prompt(nth));
      answered(1, prompt(nth), { cacheSalt: 'tenant-b', cachedTokens: 16 });
    }
    expect(codes()).toContain('salt_ignored');
  });

  it('llm-d-kv-cache#189, trt#18156: adapters that events do not name are told', () => {
    const { says, answered, codes } = monitored();
    for (let nth = 1; nth <= 3; nth += 1) {
      says(1, stored(hashes(nth), prompt(nth).slice(0, 16)));
      answered(1, prompt(nth), { loraName: 'adapter-a' });
    }
    expect(codes()).toEqual(['lora_mismatch']);
  });

  it('dyn#8751, vllm#40984: groups of a hybrid model are told, as what is cached may be less than is found', () => {
    const { says, codes } = monitored();
    const scope = { groupIndex: 1, attentionKind: 'mamba', locality: null, unsupported: null };
    says(1, stored([1], [1, 2, 3, 4], { scope }));
    expect(codes()).toEqual(['hybrid_groups']);
  });

  it('dyn#7800, dyn#8473: blocks that are announced twice are told once they are a habit', () => {
    const { says, codes } = monitored();
    for (let nth = 1; nth <= 4; nth += 1) {
      says(1, stored(hashes(nth), prompt(nth).slice(0, 16)));
      expect(codes()).toEqual([]);
      if (nth < 4) says(1, stored(hashes(nth), prompt(nth).slice(0, 16)));
    }
    says(1, stored(hashes(4), prompt(4).slice(0, 16)));
    expect(codes()).toEqual(['duplicate_stores']);
  });

  it('llm-d-router#2153: pages of one token are told with the flag', () => {
    const { says, monitor } = monitored();
    for (let at = 0; at < 16; at += 1) {
      const parent = at === 0 ? null : { lo: at, hi: 9 };
      says(1, stored([at + 1], [500 + at], { blockSize: 1, parent }));
    }
    expect(monitor.findings().map(({ code, remedy }) => [code, remedy])).toEqual([
      ['page_size_1', '--page-size 4 on the engine (its default is 1 on many backends)'],
    ]);
  });

  it('llm-d-router#1737: a stream that nobody can ask for what it lost is told', () => {
    const { says, codes, streams } = monitored();
    streams.replay = null;
    says(1, stored(hashes(1), prompt(1).slice(0, 16)));
    expect(codes()).toEqual(['no_replay']);
  });

  it('vllm-router#244: predictions that fail are told with their likely cause', () => {
    const { says, answered, sentences } = monitored();
    for (let nth = 1; nth <= 8; nth += 1) {
      says(1, stored(hashes(nth), prompt(nth).slice(0, 16)));
      answered(1, prompt(nth), { predictedTokens: 16, cachedTokens: 4 });
    }
    expect(sentences()).toEqual([
      'worker 1 rank 0: has less cached than predicted in 8 of 8 requests: events of evictions are missing, or its prefix cache is cleared without an event',
    ]);
  });

  it('names where ids part that the engine itself told, in the words of the comparison', () => {
    const { says, answered, sentences, monitor, slotOf } = monitored();
    expect(monitor.asksIds(slotOf(1))).toBe(true);
    expect(monitor.asksIds(slotOf(1))).toBe(false);
    for (let nth = 1; nth <= 3; nth += 1) {
      says(1, stored(hashes(nth), prompt(nth).slice(0, 16)));
      answered(1, prompt(nth), { engineIds: Uint32Array.from([7, ...prompt(nth)]) });
      // After a difference the next one is asked for as well.
      expect(monitor.asksIds(slotOf(1))).toBe(true);
    }
    expect(sentences()).toEqual([
      'worker 1 rank 0: sees other tokens than the router hashes: 17 here, 18 there',
    ]);
    answered(1, prompt(4), { engineIds: Uint32Array.from(prompt(4)) });
    expect(monitor.asksIds(slotOf(1))).toBe(false);
  });

  it('says that predictions are not checked where an engine does not report cached tokens, and with which flag it would', () => {
    const { says, answered, codes, monitor } = monitored();
    for (let nth = 1; nth <= 3; nth += 1) {
      says(1, stored(hashes(nth), prompt(nth).slice(0, 16)));
      // Nothing is predicted of a new prompt, and some engines leave out what is zero.
      answered(1, prompt(nth), { cachedTokens: null });
      expect(codes()).toEqual([]);
      answered(1, prompt(nth), { cachedTokens: null, predictedTokens: 16 });
    }
    expect(monitor.findings().map(({ code, remedy }) => [code, remedy])).toEqual([
      ['cached_not_reported', '--enable-prompt-tokens-details on the engine'],
    ]);
    answered(1, prompt(1), { cachedTokens: 16, predictedTokens: 16 });
    expect(codes()).toEqual([]);
  });

  it('tells ranks that batches name and nobody configured from ranks that are swapped', () => {
    const { says, monitor } = monitored();
    for (let nth = 1; nth <= 3; nth += 1) says(1, 2, stored(hashes(nth), prompt(nth).slice(0, 16)));
    expect(monitor.findings().map(({ sentence }) => sentence)).toEqual([
      'worker 1 rank 0: has 3 ranks, and 1 are configured: its KV events name rank 2',
    ]);
  });

  it('every finding names a flag, a key or a command in its remedy', () => {
    for (const [code, { remedy }] of Object.entries(FINDINGS))
      for (const words of Object.values(remedy))
        expect(words, code).toMatch(
          /--[a-z]|workers\[\]|models\.|router\.|"[a-z_]+"|PYTHONHASHSEED|chrony|pointsman doctor|cache_salt|lora_name|event_buffer_max_size/,
        );
  });

  it('forgets what was wrong with an engine when it starts anew', () => {
    const { fleet, says, answered, codes } = monitored();
    for (let nth = 1; nth <= 3; nth += 1) {
      says(1, stored(hashes(nth), [7, 7, ...prompt(nth).slice(0, 14)]));
      answered(1, prompt(nth));
    }
    expect(codes()).toEqual(['template']);
    const [worker] = fleet.workers();
    if (worker !== undefined) {
      const said = {
        model: 'm',
        workerType: 'aggregated',
        blockSize: BLOCK,
        hashScheme: 'x',
        reportsOutcomes: false,
      };
      fleet.setCapabilities(worker.spec.id, { ...said, epoch: 'a', ranks: new Map() });
      fleet.setCapabilities(worker.spec.id, { ...said, epoch: 'b', ranks: new Map() });
    }
    expect(codes()).toEqual([]);
  });

  it('takes a clock that steps for a clock that steps, and one that is merely wrong for nothing', () => {
    const { clock, codes, monitor, slotOf, says } = monitored();
    for (let sequence = 0; sequence < 5; sequence += 1)
      monitor.arrived(slotOf(1), sequence, clock.now() / 1000 - 7200);
    expect(codes()).toEqual([]);
    says(1, stored(hashes(1), prompt(1).slice(0, 16)));
    expect(codes()).toEqual(['event_clock']);
  });
});
