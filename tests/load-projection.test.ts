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

/** Requests of one block each that share nothing, every fourth with a long answer. */
function traceFile(): string {
  const lines = Array.from({ length: 120 }, (_, request) =>
    JSON.stringify({
      timestamp: request * 200,
      input_length: 64,
      output_length: request % 4 === 0 ? 4000 : 16,
      hash_ids: [request],
    }),
  );
  const file = join(folder, 'trace.jsonl');
  writeFileSync(file, `${lines.join('\n')}\n`);
  return file;
}

async function runWith(name: string, router: string): Promise<RunReport> {
  const policy = join(folder, `${name}.yaml`);
  writeFileSync(policy, `worker_selection: { aggregated: dynamo-default-cost-fn }\nrouter: { ${router} }\n`);
  const settings = { block_size: 64, workers: 3, fastEvents: true } as const;
  const { runs } = await replayInProcess(await readTrace(traceFile()), { compare: policy, ...settings });
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
