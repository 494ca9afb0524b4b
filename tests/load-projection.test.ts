// What load projection changes about routing, in virtual time.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type RunReport, readTrace } from '../src/replay/index.ts';
import { replayInProcess } from './support/replay-in-process.ts';

let folder = '';

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'loads-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface TraceShape {
  /** Between two arrivals. */
  readonly gapMs: number;
  /** Of 512 tokens, per prompt of an even number; the others have 1. */
  readonly blocks: number;
}

/** Requests that share nothing, every fourth with a long answer. */
function traceFile({ gapMs, blocks }: TraceShape): string {
  const lines = Array.from({ length: 120 }, (_, request) => {
    const length = request % 2 === 0 ? blocks : 1;
    return JSON.stringify({
      timestamp: request * gapMs,
      input_length: length * 512,
      output_length: request % 4 === 0 ? 4000 : 16,
      hash_ids: Array.from({ length }, (_, block) => request * 1000 + block),
    });
  });
  const file = join(folder, 'trace.jsonl');
  writeFileSync(file, `${lines.join('\n')}\n`);
  return file;
}

async function runWith(
  name: string,
  router: string,
  shape: TraceShape = { gapMs: 200, blocks: 1 },
): Promise<RunReport> {
  const policy = join(folder, `${name}.yaml`);
  const models = router.includes('throughput') ? 'models: { any: { prefill_tokens_per_second: 20000 } }' : '';
  writeFileSync(policy, `router: { ${router} }\n${models}\n`);
  const settings = { block_size: 512, workers: 3, fastEvents: true } as const;
  const { runs } = await replayInProcess(await readTrace(traceFile(shape)), { compare: policy, ...settings });
  const [run] = runs;
  if (run === undefined) throw new Error('nothing ran');
  expect(run.completed).toBe(120);
  return run;
}

it('a replay sends requests elsewhere when output counts as load', async () => {
  const plain = await runWith('plain', 'router_track_output_blocks: false');
  const usual = await runWith('usual', 'use_kv_events: true');
  const tracked = await runWith('tracked', 'router_track_output_blocks: true');
  expect(usual.workers).toEqual(plain.workers);
  expect(tracked.workers).not.toEqual(plain.workers);
});

it('a replay sends requests elsewhere when prompts count for what is left of them', async () => {
  const long = { gapMs: 40, blocks: 8 };
  const plain = await runWith('full', 'router_prefill_load_model: none', long);
  const falling = await runWith('falling', 'router_prefill_load_model: throughput', long);
  expect(falling.workers).not.toEqual(plain.workers);
});
