// A reload while requests wait, through the whole router: for their classification, and for hints from a thread.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, expect, test } from 'vitest';
import { type ComposedRouter, composeRouter } from '../src/cli/compose-router.ts';
import { RouterReload } from '../src/cli/router-reload.ts';
import { parseConfig } from '../src/config/index.ts';
import type { EngineRequest, EngineSink } from '../src/engines/index.ts';
import { NO_METRICS } from '../src/observe/index.ts';
import { ManualClock, NO_LOG } from '../src/plugin/index.ts';
import type { ResponseSink } from '../src/road/index.ts';
import { countedTokens, givenRequest, REPORT, SILENT } from './support/road-request.ts';

const folder = mkdtempSync(join(tmpdir(), 'reload-waits-'));
const GATE = join(folder, 'gate');
const cores: ComposedRouter[] = [];
afterEach(async () => {
  for (const core of cores.splice(0)) await core.close();
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Answers that classifiers wait for, and what became of them. */
const classifying: { readonly version: number; readonly answer: (overrides: object) => void }[] = [];
const events: string[] = [];
Reflect.set(globalThis, 'reloadWaits', { classifying, events });

const plugin = (version: number): string => `import { existsSync } from 'node:fs';
import { defineHintPolicy, defineRequestClassifier, defineWorkerSelectionPolicy, pickWorker } from 'pointsman/plugin';
export const chooser = defineWorkerSelectionPolicy({
  type: 'chooser',
  create: () => ({ picker: pickWorker({ pick: () => 0 }) }),
});
export const slow = defineHintPolicy({
  type: 'slow',
  isolation: 'thread',
  create: () => ({
    buildHints() {
      while (!existsSync('${GATE}'));
      return [{ type: 'acme.mark', version: '1.0', payload: { version: ${version} } }];
    },
  }),
});
export const asker = defineRequestClassifier({
  type: 'asker',
  create: () => ({
    classify: () => new Promise((answer) => void globalThis.reloadWaits.classifying.push({ version: ${version}, answer })),
    onEvent: ({ kind }) => void globalThis.reloadWaits.events.push('${version} ' + kind),
    dispose: () => void globalThis.reloadWaits.events.push('${version} dispose'),
  }),
});
`;

const config = (policies: string): string => `plugins: [./p.ts]
models: { tiny: { block_size: 16, tokens: { source: estimate } } }
workers:
  - id: 1
    url: http://127.0.0.1:9001
    dialect: sim
    capabilities:
      { protocol_versions: ['0.1'], epoch: e, model: tiny, worker_type: aggregated, block_size: 16, hash_scheme: x,
        reports_outcomes: false, ranks: { '0': { router_hint: true } } }
${policies}`;

async function start(policies: string) {
  const edit = (version: number): void => writeFileSync(join(folder, 'p.ts'), plugin(version));
  edit(1);
  const read = () => ({ ...parseConfig(config(policies), join(folder, 'router.yaml')), files: [] });
  const { config: started, source } = read();
  const sent: { readonly request: EngineRequest; readonly sink: EngineSink }[] = [];
  const common = { clock: new ManualClock(), metrics: NO_METRICS, log: NO_LOG };
  const core = await composeRouter({
    ...common,
    config: started,
    source,
    seed: 1,
    threads: { modules: {} },
    transportFor: () => ({
      dispatch(request, sink) {
        sent.push({ request, sink });
        return { abort() {}, pause() {}, resume() {} };
      },
      close() {},
    }),
  });
  cores.push(core);
  const reload = new RouterReload({ ...common, core, started, files: [], read, apply: () => undefined });
  let requests = 0;
  let decision = '';
  const sink: ResponseSink = {
    ...SILENT,
    booked(_, id) {
      decision = id;
    },
    failed(error) {
      throw error;
    },
  };
  const arrive = (): void => {
    requests += 1;
    core.road.arrive(givenRequest(`r${requests}`, countedTokens(32)), sink);
  };
  return {
    core,
    edit,
    reload: () => reload.request('file'),
    arrive,
    sent,
    record: () => core.decisions?.get(decision) ?? null,
    version: () => core.host.status().plugins[0]?.version,
  };
}

async function until(done: () => boolean): Promise<void> {
  while (!done()) await new Promise((resolve) => setImmediate(resolve));
}

test('a request that waits for its classification is answered by the classifier it asked, and booked by the policies of now', async () => {
  const { arrive, core, edit, record, reload, sent, version } = await start(
    'request_classifier: asker\nworker_selection: { aggregated: { type: chooser, hints: [] } }\n',
  );
  arrive();
  edit(2);
  expect((await reload()).result).toBe('applied');
  expect(classifying.map(({ version: asked }) => asked)).toEqual([1]);
  expect(core.host.status().other).toMatchObject({ generation: 1, bookings: 1 });
  classifying[0]?.answer({ schedulingCostTokens: 5 });
  await until(() => sent.length === 1);
  expect(record()).toMatchObject({
    policy: { type: 'chooser', version: version() },
    classification: { overrides: { scheduling_cost_tokens: 5 } },
  });
  // A third generation waits for the first one, and the first one for its request.
  edit(3);
  const third = reload();
  await until(() => core.host.status().other?.state === 'draining');
  expect([core.host.status().other?.bookings, events]).toEqual([1, ['1 sent']]);
  sent[0]?.sink.finished(REPORT);
  expect((await third).result).toBe('applied');
  expect(events).toEqual(['1 sent', '1 completed', '1 dispose']);
  expect(core.road.activeBookings()).toBe(0);
});

test('a request that waits for a thread gets the hints of the policies that booked it', async () => {
  const { arrive, core, edit, record, reload, sent, version } = await start(
    'worker_selection: { aggregated: { type: chooser, hints: [{ type: slow, deadline: 1m }] } }\n',
  );
  const first = version();
  arrive();
  expect([sent.length, core.road.activeBookings()]).toEqual([0, 1]);
  edit(2);
  expect((await reload()).result).toBe('applied');
  expect(core.host.status().other).toMatchObject({ generation: 1, bookings: 1 });
  writeFileSync(GATE, '');
  await until(() => sent.length === 1);
  arrive();
  await until(() => sent.length === 2);
  expect(sent.map(({ request }) => request.hint?.actions[0]?.payload)).toEqual([
    { version: 1 },
    { version: 2 },
  ]);
  expect(record()?.policy.version).toBe(version());
  expect(version()).not.toBe(first);
  for (const { sink } of sent) sink.finished(REPORT);
  expect(core.host.status().other).toMatchObject({ state: 'standby', bookings: 0 });
});
