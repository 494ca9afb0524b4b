// Cache contents of a replay against naive caches and, where the whole traces lie beside the repository, against the figures
// that are known for them.
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { readTrace, type Trace } from '../src/replay/index.ts';
import { naiveBlockList, naiveEngine } from './support/naive-caches.ts';
import { replayInProcess } from './support/replay-in-process.ts';

type Name = 'conversation' | 'synthetic';
type Case = readonly [trace: Name, workers: number, blocks: number | 'unlimited', rate: number];

const SAMPLES = {
  conversation: fileURLToPath(new URL('fixtures/mooncake_conversation_sample.jsonl', import.meta.url)),
  synthetic: fileURLToPath(new URL('fixtures/mooncake_synthetic_sample.jsonl', import.meta.url)),
};
const WHOLE = {
  conversation: fileURLToPath(
    new URL('../../shared/data/mooncake_conversation_trace.jsonl.gz', import.meta.url),
  ),
  synthetic: fileURLToPath(new URL('../../shared/data/mooncake_synthetic_trace.jsonl.gz', import.meta.url)),
};
const haveWhole = existsSync(WHOLE.conversation) && existsSync(WHOLE.synthetic);

/** Σ hit ids / Σ ids of whole blocks, LRU. */
const BLOCK_LIST: readonly Case[] = [
  ['conversation', 1, 'unlimited', 0.3664],
  ['conversation', 4, 'unlimited', 0.1918],
  ['conversation', 8, 'unlimited', 0.1363],
  ['synthetic', 1, 'unlimited', 0.6396],
  ['synthetic', 4, 'unlimited', 0.3646],
  ['synthetic', 8, 'unlimited', 0.2264],
  ['conversation', 1, 50_000, 0.3546],
  ['conversation', 1, 20_000, 0.2875],
  ['conversation', 1, 5000, 0.1104],
  ['conversation', 1, 1000, 0.0445],
];

/** Σ tokens reported as cached / Σ input tokens. */
const ENGINE: readonly Case[] = [
  ['conversation', 1, 'unlimited', 0.3734],
  ['conversation', 4, 'unlimited', 0.1955],
  ['conversation', 8, 'unlimited', 0.139],
  ['synthetic', 1, 'unlimited', 0.6504],
  ['synthetic', 4, 'unlimited', 0.3712],
  ['synthetic', 8, 'unlimited', 0.2305],
  ['conversation', 1, 50_000, 0.3615],
  ['conversation', 1, 20_000, 0.2949],
  ['conversation', 1, 5000, 0.1162],
  ['synthetic', 1, 50_000, 0.6504],
  ['synthetic', 1, 20_000, 0.5895],
  ['synthetic', 1, 5000, 0.288],
];

const size = (blocks: number | 'unlimited'): number =>
  blocks === 'unlimited' ? Number.POSITIVE_INFINITY : blocks;

async function blockListRate(trace: Trace, workers: number, blocks: number | 'unlimited'): Promise<number> {
  const report = await replayInProcess(trace, {
    workers,
    kv_blocks: blocks,
    timing: 'none',
    model: 'block-list',
    compare: 'round-robin',
  });
  return report.runs[0]!.prefix_hit_rate!;
}

async function engineRate(trace: Trace, workers: number, blocks: number | 'unlimited'): Promise<number> {
  const report = await replayInProcess(trace, {
    workers,
    kv_blocks: blocks,
    timing: 'none',
    compare: 'round-robin',
  });
  return report.runs[0]!.prefix_hit_rate_tokens!;
}

describe.each(['conversation', 'synthetic'] as const)('the first 200 requests of the %s trace', (name) => {
  it.each([
    [1, 'unlimited'],
    [3, 'unlimited'],
    [1, 1500],
    [2, 700],
    [1, 400],
  ] as const)(
    'hit as in a naive cache, %i workers with %s blocks, in both cache models',
    async (workers, blocks) => {
      const trace = await readTrace(SAMPLES[name]);
      const list = naiveBlockList(trace, workers, size(blocks));
      expect(await blockListRate(trace, workers, blocks)).toBeCloseTo(list.idRate, 6);
      const engine = naiveEngine(trace, workers, size(blocks));
      expect(await engineRate(trace, workers, blocks)).toBeCloseTo(engine.tokenRate, 6);
      expect(engine.tokenRate).toBeGreaterThan(0);
    },
  );
});

const whole = haveWhole ? describe : describe.skip;
whole(
  `the whole traces${haveWhole ? '' : ' (skipped: ../shared/data, beside the repository, is not there)'}`,
  () => {
    it.each(BLOCK_LIST)(
      '%s, %i workers, %s blocks, block-list: naive cache and replay give %f',
      async (name, workers, blocks, rate) => {
        const trace = await readTrace(WHOLE[name]);
        expect(Math.abs(naiveBlockList(trace, workers, size(blocks)).idRate - rate)).toBeLessThan(0.00005);
        expect(Math.abs((await blockListRate(trace, workers, blocks)) - rate)).toBeLessThan(0.00005);
      },
    );

    it.each(ENGINE)(
      '%s, %i workers, %s blocks, engine: naive cache and replay give %f',
      async (name, workers, blocks, rate) => {
        const trace = await readTrace(WHOLE[name]);
        const naive = naiveEngine(trace, workers, size(blocks)).tokenRate;
        expect(Math.abs(naive - rate)).toBeLessThan(0.0005);
        expect(Math.abs((await engineRate(trace, workers, blocks)) - naive)).toBeLessThan(0.000001);
      },
    );
  },
);
