import { describe, expect, it } from 'vitest';
import { parseCompare } from './compare.ts';
import { checkReplaySettings } from './replay.ts';
import type { ReplaySettings } from './types.ts';

const GOOD: ReplaySettings = {
  workers: 8,
  block_size: 512,
  kv_blocks: 16_384,
  timing: 'default',
  model: 'engine',
  speedup: 1,
  limit: null,
  seed: 1,
  cut_events: false,
};

describe('checkReplaySettings', () => {
  it('takes every block size that divides 512', () => {
    for (let block_size = 1; block_size <= 512; block_size *= 2) checkReplaySettings({ ...GOOD, block_size });
    checkReplaySettings({ ...GOOD, model: 'block-list', timing: 'none', kv_blocks: 'unlimited', limit: 5 });
  });

  it.each([
    [{ workers: 0 }, '--workers is 0; it must be a whole number from 1 to 10000'],
    [
      { block_size: 48 },
      "--block-size 48 does not divide the trace's block size 512; blocks of the engine would straddle blocks of the trace, so take 1, 2, 4, … 512",
    ],
    [{ block_size: 1024 }, '--block-size is 1024; it must be a whole number from 1 to 512'],
    [{ kv_blocks: 0 }, '--kv-blocks is 0; it must be a whole number from 1 to 67108864'],
    [{ speedup: 0 }, '--speedup is 0; it must be a number above 0, at most 1000000'],
    [{ limit: 0 }, '--limit is 0; it must be a whole number from 1 to 9007199254740991'],
    [
      { restart_engines: [{ worker: 9, at_ms: 1 }] },
      '--restart-engine names worker 9; there are workers 1 to 8',
    ],
    [
      { host_kv_blocks: 5, kv_blocks: 'unlimited' as const },
      '--host-kv-blocks takes what leaves the KV blocks; give --kv-blocks a number, and --model engine',
    ],
    [
      { host_kv_blocks: 5, host_gbps: 0 },
      '--host-gbps is 0; it must be a number above 0, at most 1000000000',
    ],
    [{ seed: 0 }, '--seed is 0; it must be a whole number from 1 to 9007199254740991'],
    [
      { model: 'block-list' as const },
      '--model block-list measures cache contents only and knows no time; add --timing none, or take --model engine',
    ],
  ])('refuses %o', (change, message) => {
    expect(() => checkReplaySettings({ ...GOOD, ...change })).toThrow(message);
  });
});

describe('parseCompare', () => {
  it('tells router modes, built-in policies and policy files apart', () => {
    expect(parseCompare('kv, round-robin,pointsman-expected-time,dir/mine.yaml,b.yml')).toEqual([
      { name: 'kv', choice: { kind: 'mode', mode: 'kv' } },
      { name: 'round-robin', choice: { kind: 'mode', mode: 'round-robin' } },
      {
        name: 'pointsman-expected-time',
        choice: { kind: 'built-in', type: 'pointsman-expected-time' },
      },
      { name: 'dir/mine.yaml', choice: { kind: 'policy', file: 'dir/mine.yaml' } },
      { name: 'b.yml', choice: { kind: 'policy', file: 'b.yml' } },
    ]);
  });

  it.each([
    ['', '--compare "" has an empty name'],
    ['kv,', '--compare "kv," has an empty name'],
    ['kv,random,kv', '--compare names kv twice'],
    [
      'roundrobin',
      '--compare cannot run "roundrobin"; it takes kv, round-robin, random, power-of-two, least-loaded, dynamo-default-cost-fn, pointsman-expected-time, pointsman-tuned-cost, dynamo-two-tier-cost-fn, kvcr or a policy file ending in .yaml',
    ],
    [Array(17).fill('kv').join(','), '--compare names 17 runs; at most 16 are allowed'],
  ])('refuses %j', (list, message) => {
    expect(() => parseCompare(list)).toThrow(message);
  });
});
