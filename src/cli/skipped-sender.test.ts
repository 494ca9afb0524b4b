// A sender of committed copies that keeps failing: while it is skipped nothing is credited that nobody would send, and the first
// decision after its pause both credits and tries it.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { countedTokens, givenRequest, SILENT } from '../../tests/support/road-request.ts';
import { parseConfig } from '../config/index.ts';
import type { EngineRequest, EngineSink } from '../engines/index.ts';
import { blockHashSeed } from '../kv/index.ts';
import { createMetrics } from '../observe/index.ts';
import { ManualClock, NO_LOG } from '../plugin/index.ts';
import { NO_CONSTRAINTS } from '../road/index.ts';
import { composeRouter } from './compose-router.ts';

const START = 5000;
const PAUSE = 10_000;
/** The sender throws before this, and works from then on. */
const MENDED = START + PAUSE + 1000;

const SENDER = `import { defineHintPolicy } from 'pointsman/plugin';
export default defineHintPolicy({
  type: 'sender',
  actions: ['kv.fetch@1.0'],
  commitments: ['kv-copy'],
  create: ({ clock }) => ({
    buildHints({ committedKvCopy }) {
      if (clock.now() < ${MENDED}) throw new Error('not yet');
      if (committedKvCopy === null) return [];
      const { controlEndpoint, blockHashes } = committedKvCopy;
      return [{ type: 'kv.fetch', version: '1.0', payload: { source_control_endpoint: controlEndpoint, block_hashes: blockHashes } }];
    },
  }),
});
`;

const worker = (id: number) => `
  - id: ${id}
    model: tiny
    url: "http://127.0.0.1:${9000 + id}"
    dialect: sim
    capabilities:
      protocol_versions: ["0.1"]
      reports_outcomes: true
      epoch: e
      model: tiny
      worker_type: aggregated
      block_size: 16
      hash_scheme: sim
      ranks: { "0": { router_hint: true, source_control_endpoint: "tcp://127.0.0.1:${7000 + id}" } }`;

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'sender-'));
  writeFileSync(join(folder, 'sender.mjs'), SENDER);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it('is counted on neither while it is skipped nor after a probe that failed, and again once it works', async () => {
  const { config, source } = parseConfig(
    `plugins: [./sender.mjs]
models: { tiny: { block_size: 16, tokens: { source: estimate } } }
worker_selection: { aggregated: { type: kvcr, hints: [{ type: sender }] } }
workers:${[1, 2].map(worker).join('')}
`,
    join(folder, 'router.yaml'),
  );
  const clock = new ManualClock(START);
  const sent: { request: EngineRequest; sink: EngineSink }[] = [];
  const metrics = createMetrics();
  const router = await composeRouter({
    announces: () => true,
    config,
    source,
    clock,
    seed: 3,
    transportFor: () => ({
      dispatch(request, sink) {
        sent.push({ request, sink });
        return { abort() {}, pause() {}, resume() {} };
      },
      close() {},
    }),
    metrics,
    log: NO_LOG,
    containment: { wallMs: () => clock.now(), running: null },
  });
  // Worker 1 holds the prompt; every request is pinned to worker 2.
  const { local } = router.hasher.hashPrompt(countedTokens(64), 16, blockHashSeed({}));
  router.index?.store(
    router.fleet.slotOf(1n, 0),
    'device',
    null,
    local.map((half) => ~half >>> 0),
    local,
  );
  const arrive = () => {
    let decision = '';
    router.road.arrive(
      givenRequest(`r${sent.length}`, countedTokens(64), {
        constraints: { ...NO_CONSTRAINTS, pinnedWorker: { workerId: 2n, rank: null } },
      }),
      {
        ...SILENT,
        booked(_chosen, id) {
          decision = id;
        },
        failed(error) {
          throw error;
        },
      },
    );
    const record = router.decisions?.get(decision);
    const [candidate] = record?.candidates.filter((one) => one.eligible) ?? [];
    return {
      credited: candidate?.eligible === true ? candidate.overlap_blocks.shared : null,
      commit: record?.hints?.commit && [record.hints.commit.result, record.hints.commit.reason],
    };
  };
  const uncredited = { credited: 0, commit: null };
  const degraded = { credited: 4, commit: ['degraded', 'threw'] };
  for (let failure = 1; failure <= 5; failure += 1) expect(arrive()).toEqual(degraded);
  expect(arrive()).toEqual(uncredited);
  clock.advanceTo(START + PAUSE - 1);
  expect(arrive()).toEqual(uncredited);
  clock.advanceTo(START + PAUSE);
  expect(arrive()).toEqual(degraded);
  expect(arrive()).toEqual(uncredited);
  clock.advanceTo(START + 2 * PAUSE);
  const works = { credited: 4, commit: ['sent', null] };
  expect(arrive()).toEqual(works);
  expect(arrive()).toEqual(works);
  const text = await metrics.text();
  expect(text).toContain('pointsman_kv_copy_commits_made_total{policy="kvcr"} 8');
  await router.close();
});
