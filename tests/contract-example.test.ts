// The plugin contract's own example, as it is written there: it compiles, loads from a folder without anything else in it, and gets
// null where there is no lineage.
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parseConfig } from '../src/config/index.ts';
import { createPluginHost } from '../src/host/index.ts';
import { type LogFields, ManualClock, NO_LOG, type SessionLineage } from '../src/plugin/index.ts';
import { testHintPolicy } from '../src/testing/index.ts';
import harnessPrefetch from './fixtures/contract/harness-prefetch.ts';

const EXAMPLE = fileURLToPath(new URL('fixtures/contract/harness-prefetch.ts', import.meta.url));
let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'contract-'));
  copyFileSync(EXAMPLE, join(folder, 'harness-prefetch.ts'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it('loads, asks for lineage alone, and the start says once per role that there is none', async () => {
  const { config, source } = parseConfig(
    `plugins: [./harness-prefetch.ts]
worker_selection:
  decode:
    type: dynamo-default-cost-fn
    on_commit_failure: degrade
    hints:
      - type: harness_prefetch
        parameters: { max_blocks: 64 }
  aggregated: { type: round-robin, hints: [{ type: harness_prefetch }] }
`,
    join(folder, 'policy.yaml'),
  );
  const lines: [string, LogFields | undefined][] = [];
  const log = { ...NO_LOG, warn: (text: string, fields?: LogFields) => void lines.push([text, fields]) };
  const host = await createPluginHost({ config, source, clock: new ManualClock(), log });
  expect(host.warnings).toEqual([]);
  const [aggregated, prefill, decode] = host.resolution();
  expect(aggregated?.needs).toMatchObject({
    lineage: true,
    residency: false,
    cache: false,
    copyLocations: false,
  });
  expect(prefill?.needs.lineage).toBe(false);
  expect(decode?.needs).toMatchObject({ lineage: true, cache: true });
  const text = 'declared inputs are switched off in this version: policies get null for them';
  expect(lines).toEqual([
    [text, { role: 'aggregated', inputs: 'session-lineage' }],
    [text, { role: 'decode', inputs: 'session-lineage' }],
  ]);
  await host.dispose();
});

it('sends nothing without a session or without lineage, and up to max_blocks hashes of the booked worker with both', async () => {
  const session = { sessionId: 's', agentHeaders: {} };
  const asked: unknown[] = [];
  const lineage: SessionLineage = {
    nodeOf: () => null,
    node: () => null,
    frontiers: () => [],
    paths: () => [],
    uniqueBlocks(sessionId, worker) {
      asked.push([sessionId, worker]);
      return BigUint64Array.of(5n, 2n ** 64n - 1n, 7n);
    },
    exclusiveBlocks: () => BigUint64Array.of(7n),
  };
  const run = async (context: object) => {
    const { actions, dropped, error } = await testHintPolicy(harnessPrefetch, {
      parameters: { max_blocks: 2 },
      context,
    });
    expect([dropped, error]).toEqual([null, null]);
    return actions;
  };
  expect(await run({ lineage })).toEqual([]);
  expect(await run({ session })).toEqual([]);
  expect(asked).toEqual([]);
  expect(await run({ session, lineage, worker: { workerId: 9n, rank: 3 } })).toEqual([
    {
      action_id: 'a1',
      action_type: 'kv.prefetch',
      action_version: '1.0',
      payload: { block_hashes: BigUint64Array.of(5n, 2n ** 64n - 1n) },
    },
  ]);
  expect(asked).toEqual([['s', { workerId: 9n, rank: 3 }]]);
});
