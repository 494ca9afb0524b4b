// Host memory from the engine's eviction to the router's choice: announced, indexed, weighed, predicted and found cached.
import { expect, test } from 'vitest';
import { composeReplayRouter } from '../src/cli/replay-router.ts';
import { parseConfig } from '../src/config/index.ts';
import { encodeEventBatch } from '../src/events/index.ts';
import { createBlockHasher } from '../src/kv/index.ts';
import { type DecisionRecord, renderDecision } from '../src/observe/index.ts';
import { type ReplaySettings, replay, traceOfRows } from '../src/replay/index.ts';

const SETTINGS: ReplaySettings = {
  workers: 2,
  block_size: 512,
  kv_blocks: 5,
  host_kv_blocks: 40,
  host_gbps: 504,
  timing: 'default',
  model: 'engine',
  speedup: 1,
  limit: null,
  seed: 1,
  cut_events: false,
};

/** A prompt of four whole blocks, one token beyond them, and one output token. */
const row = (at: number, firstId: number) => ({
  timestamp: at * 10_000,
  input_length: 2049,
  output_length: 1,
  hash_ids: Array.from({ length: 5 }, (_, block) => (block < 4 ? firstId + block : 1000 + at)),
});

/** Four prompts push each other off two small devices; then the first comes again. */
const ROWS = [row(0, 1), row(1, 11), row(2, 21), row(3, 31), row(4, 1)];

async function lastOf(settings: ReplaySettings, weight: number) {
  const text = `router: { host_cache_hit_weight: ${weight} }`;
  const loaded = parseConfig(text, 'host-tier', { env: {}, readFile: () => '' });
  const decisions: DecisionRecord[] = [];
  const warnings: string[] = [];
  const { runs } = await replay({
    trace: traceOfRows('host-tier', ROWS),
    settings,
    runs: [{ name: 'kv', choice: { kind: 'mode', mode: 'kv' } }],
    fastEvents: false,
    compose: (options) =>
      composeReplayRouter(loaded, options, {
        warn: (line) => warnings.push(line),
        onDecision(phase, record) {
          if (phase === 'completed') decisions.push(record);
        },
      }),
    hasher: createBlockHasher(),
    encode: encodeEventBatch,
    wallClock: () => performance.now(),
    progress: () => undefined,
    signal: new AbortController().signal,
  });
  expect(warnings).toEqual([]);
  const [first, last] = ['r0', 'r4'].map((id) => decisions.find(({ request_id }) => request_id === id));
  const [report] = runs;
  if (!first || !last || !report) throw new Error('not every request was decided');
  return { first, last, report };
}

function overlapsOf(record: DecisionRecord) {
  return new Map(
    record.candidates.flatMap((row) =>
      row.eligible ? [[row.worker_id, { overlap: row.overlap_blocks, terms: row.terms }] as const] : [],
    ),
  );
}

test('a prefix in host memory is seen, credited at its weight, predicted and found cached', async () => {
  const { first, last, report } = await lastOf(SETTINGS, 0.75);
  const home = first.pick.worker_id;
  expect(last.pick.worker_id).toBe(home);
  const seen = overlapsOf(last).get(home)!;
  expect(seen.overlap).toEqual({ device: 0, host: 4, disk: 0, shared: 0 });
  expect(seen.terms?.credit).toBe(3);
  expect(last.prediction).toMatchObject({ cached_tokens: 2048, cached_by_tier: { device: 0, host: 2048 } });
  expect(last.report?.cached_tokens).toBe(2048);
  expect(report.workers.reduce((sum, worker) => sum + (worker.onboarded_blocks ?? 0), 0)).toBe(4);
  const picked =
    renderDecision(last)
      .split('\n')
      .find((line) => line.includes('<- picked')) ?? '';
  // place, worker, rank, cost, device, host
  expect(renderDecision(last)).toMatch(
    /cached tokens: predicted 2048 \([\d.]+ %\): 0 on the device, 2048 in host memory/,
  );
  expect(picked.trim().split(/\s+/).slice(4, 6)).toEqual(['0', '4']);
});

test('without credit for host memory the prefix is seen and weighs nothing', async () => {
  const { first, last } = await lastOf(SETTINGS, 0);
  const seen = overlapsOf(last).get(first.pick.worker_id)!;
  expect([seen.overlap.host, seen.terms?.credit]).toEqual([4, 0]);
});

test('without host memory the same prompt is computed again', async () => {
  const { host_gbps, host_kv_blocks, ...without } = SETTINGS;
  expect([host_gbps, host_kv_blocks]).toEqual([504, 40]);
  const { last, report } = await lastOf(without, 0.75);
  expect([last.prediction?.cached_tokens, last.report?.cached_tokens]).toEqual([0, 0]);
  expect(report.workers[0]).not.toHaveProperty('onboarded_blocks');
});
