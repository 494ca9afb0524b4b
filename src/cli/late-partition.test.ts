// A model that joins after startup and whose policies cannot be created: its requests are refused with the reason, others are served.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { countedTokens, givenRequest, SILENT } from '../../tests/support/road-request.ts';
import { parseConfig } from '../config/index.ts';
import { NO_METRICS } from '../observe/index.ts';
import { ManualClock, NO_LOG } from '../plugin/index.ts';
import { composeRouter } from './compose-router.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'late-'));
  writeFileSync(
    join(folder, 'picky.mjs'),
    `import { defineHintPolicy } from 'pointsman/plugin';
export default defineHintPolicy({ type: 'picky', create({ partition: { model } }) {
  if (model !== 'tiny') throw new Error('key abc is not for ' + model);
  return { buildHints: () => [] };
} });
`,
  );
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it('is refused by name, and the others go on', async () => {
  const { config, source } = parseConfig(
    `plugins: [./picky.mjs]
models: { tiny: { block_size: 16, tokens: { source: estimate } } }
worker_selection: { aggregated: { hints: [{ type: picky }] } }
workers: [{ id: 1, model: tiny, url: "http://127.0.0.1:9001", dialect: sim, capabilities: none }]
`,
    join(folder, 'router.yaml'),
  );
  const router = await composeRouter({
    config,
    source,
    clock: new ManualClock(),
    seed: 3,
    transportFor: () => ({ dispatch: () => ({ abort() {}, pause() {}, resume() {} }), close() {} }),
    metrics: NO_METRICS,
    log: NO_LOG,
  });
  expect(router.host.failures()).toEqual([]);
  router.fleet.add({
    id: 2n,
    model: 'late',
    url: 'http://127.0.0.1:9002',
    dialect: 'sim',
    role: 'aggregated',
    ranks: { first: 0, count: 1 },
    kvEvents: new Map(),
    maxNumBatchedTokens: null,
    totalKvBlocks: null,
    taints: [],
    topology: {},
  });
  const answers: string[] = [];
  const arrive = (model: string): void => {
    router.road.arrive(
      givenRequest(`r${answers.length}`, countedTokens(32), {
        partition: { model, routingGroup: 'default' },
        servedAs: model,
      }),
      {
        ...SILENT,
        booked: ({ workerId }) => void answers.push(`worker ${workerId}`),
        failed: ({ code, status, message }) => void answers.push(`${status} ${code} ${message}`),
      },
    );
  };
  arrive('late');
  arrive('tiny');
  arrive('late');
  // What the plugin threw is for operators, not for clients.
  const refusal =
    '503 PM_PARTITION_NOT_READY model late cannot be served in role aggregated: create of hint policy picky threw for role aggregated';
  expect(answers).toEqual([refusal, 'worker 1', refusal]);
  expect(router.host.failures()).toMatchObject([
    { partition: { model: 'late' }, role: 'aggregated', cause: 'key abc is not for late' },
  ]);
  await router.close();
});
