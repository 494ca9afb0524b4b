import { expect, it } from 'vitest';
import { type BusyThresholds, parseConfig } from '../config/index.ts';
import { Fleet } from '../fleet/index.ts';
import { createMetrics } from '../observe/index.ts';
import { NO_LOG } from '../plugin/index.ts';
import { Scheduler } from '../scheduling/index.ts';
import { BusySettings } from './busy-settings.ts';

const MODELS =
  'models: { a: { active_prefill_tokens_threshold: 100, tokens: { source: estimate } }, b: { tokens: { source: estimate } } }\n';
const config = (yaml: string) => parseConfig(MODELS + yaml, 'router.yaml').config;

function settings(yaml = '') {
  const fleet = new Fleet();
  const scheduler = new Scheduler({ fleet, fallback: null });
  const logged: string[] = [];
  const log = { ...NO_LOG, info: (message: string) => void logged.push(message) };
  const blockSizes = { ofModel: () => 16 };
  const busy = new BusySettings(
    { fleet, scheduler, blockSizes, metrics: createMetrics(), log },
    config(yaml),
  );
  const of = (model: string) => {
    const found = busy.list().find((one) => one.model === model);
    return (
      found && [
        found.active_decode_blocks_threshold,
        found.active_prefill_tokens_threshold,
        found.active_prefill_tokens_threshold_frac,
        found.source,
      ]
    );
  };
  return { fleet, scheduler, busy, logged, of };
}

const change = (changes: Partial<BusyThresholds>, model = 'a') => ({ model, changes });

it('a change adds to what is in force, and is in force at once', () => {
  const { busy, scheduler, of } = settings();
  expect([of('a'), of('b')]).toEqual([
    [null, 100, null, 'configuration'],
    [null, null, null, 'configuration'],
  ]);
  expect(scheduler.busy.hasThresholds('b')).toBe(false);
  expect(busy.change(change({ activeDecodeBlocks: 0.5 }))).toMatchObject({
    model: 'a',
    active_decode_blocks_threshold: 0.5,
    active_prefill_tokens_threshold: 100,
    source: 'admin',
  });
  busy.change(change({ activePrefillTokensFrac: 2 }, 'b'));
  busy.change(change({ activePrefillTokens: null }));
  expect([of('a'), of('b')]).toEqual([
    [0.5, null, null, 'admin'],
    [null, null, 2, 'admin'],
  ]);
  expect(scheduler.busy.hasThresholds('b')).toBe(true);
});

it('no change asks for what is in force; an unknown model has nothing', () => {
  const { busy } = settings();
  expect(busy.change(change({}))).toMatchObject({ model: 'a', source: 'configuration' });
  expect(busy.change(change({ activeDecodeBlocks: 1 }, 'c'))).toBeNull();
});

it('what was set holds over a reload until the configuration says something else of that model', () => {
  const { busy, of, logged } = settings();
  busy.change(change({ activePrefillTokens: 7 }));
  busy.change(change({ activePrefillTokens: 8 }, 'b'));
  busy.follow(config('limits: { drain: 1s }\n'));
  expect([of('a'), of('b')]).toEqual([
    [null, 7, null, 'admin'],
    [null, 8, null, 'admin'],
  ]);
  // The router's own threshold is one of model b, and not of model a, which has its own.
  busy.follow(config('router: { active_prefill_tokens_threshold: 300 }\n'));
  expect([of('a'), of('b')]).toEqual([
    [null, 7, null, 'admin'],
    [null, 300, null, 'configuration'],
  ]);
  expect(logged.at(-1)).toBe(
    'the configuration takes the place of busy thresholds that were set while running',
  );
});

it('workers are named that a threshold does not test', () => {
  const { busy, fleet } = settings('router: { active_decode_blocks_threshold: 0.5 }\n');
  const spec = {
    model: 'a',
    url: 'http://127.0.0.1:1',
    dialect: 'sim',
    role: 'aggregated',
    ranks: { first: 0, count: 1 },
    kvEvents: new Map(),
    taints: [],
    topology: {},
  } as const;
  fleet.add({ ...spec, id: 1n, totalKvBlocks: 100, maxNumBatchedTokens: null });
  fleet.add({ ...spec, id: 2n, totalKvBlocks: null, maxNumBatchedTokens: 5 });
  busy.change(change({ activePrefillTokensFrac: 0 }));
  expect(busy.list()[0]?.untested).toEqual({
    active_decode_blocks_threshold: [2n],
    active_prefill_tokens_threshold_frac: [1n],
  });
  expect(busy.list()[1]?.untested).toEqual({});
  const [first, second] = fleet.workers().map((worker) => busy.statusOf(worker));
  expect([first, second]).toEqual([
    { busy: false, decodeBlocks: 50, prefillTokens: 100 },
    { busy: false, decodeBlocks: null, prefillTokens: 0 },
  ]);
});
