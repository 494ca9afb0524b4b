// No decision mixes generations: whatever order requests, edits, trips and time come in, the classifier that answered at once, the policy
// that chose a worker and the hint policy that wrote to its engine are of one version, and the version that serves is the newest that did
// not fail. A classifier hears of its requests for as long as it lives, and not afterwards.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { composeRouter } from '../src/cli/compose-router.ts';
import { RouterReload } from '../src/cli/router-reload.ts';
import { parseConfig } from '../src/config/index.ts';
import type { EngineRequest, EngineSink } from '../src/engines/index.ts';
import { NO_METRICS } from '../src/observe/index.ts';
import { ManualClock, NO_LOG } from '../src/plugin/index.ts';
import type { ResponseSink } from '../src/road/index.ts';
import { countedTokens, givenRequest, REPORT, SILENT } from './support/road-request.ts';

const folder = mkdtempSync(join(tmpdir(), 'reload-decisions-'));
afterAll(() => rmSync(folder, { recursive: true }));

const PLUGIN = `import { defineHintPolicy, defineRequestClassifier, defineWorkerSelectionPolicy, pickWorker } from 'pointsman/plugin';
import { BAD, VERSION } from './version.ts';
export const chooser = defineWorkerSelectionPolicy({
  type: 'chooser',
  create: () => ({
    picker: pickWorker({ pick: () => { if (BAD) throw new Error('bad'); return VERSION % 2; } }),
  }),
});
export const teller = defineHintPolicy({
  type: 'teller',
  create: () => {
    const life = { alive: true };
    return {
      buildHints: () => [{ type: 'acme.mark', version: '1.0', payload: { version: VERSION, alive: life.alive } }],
      dispose: () => void (life.alive = false),
    };
  },
});
export const asker = defineRequestClassifier({
  type: 'asker',
  create: () => {
    const life = { alive: true };
    return {
      classify: () => ({ schedulingCostTokens: VERSION }),
      onEvent: ({ kind }) => void globalThis.reloadDecisionsHeard.push({ kind, alive: life.alive }),
      dispose: () => void (life.alive = false),
    };
  },
});
`;
/** What classifiers heard, and whether they were alive then. */
const heard: { readonly kind: string; readonly alive: boolean }[] = [];
Reflect.set(globalThis, 'reloadDecisionsHeard', heard);
const CONFIG = `plugins: [./both.ts]
request_classifier: asker
models: { tiny: { block_size: 16, tokens: { source: estimate } } }
workers:
${[1, 2]
  .map(
    (id) => `  - id: ${id}
    url: http://127.0.0.1:900${id}
    dialect: sim
    capabilities:
      { protocol_versions: ['0.1'], epoch: e, model: tiny, worker_type: aggregated, block_size: 16, hash_scheme: x,
        reports_outcomes: false, ranks: { '0': { router_hint: true } } }
`,
  )
  .join('')}worker_selection: { aggregated: { type: chooser, hints: [{ type: teller }] } }
`;

const step = fc.oneof(
  // Six in a row trip the breaker of a bad version.
  { weight: 8, arbitrary: fc.record({ do: fc.constant('arrive' as const), count: fc.constantFrom(1, 6) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('end' as const), which: fc.nat(50) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('edit' as const), bad: fc.boolean() }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 70_000 }) }),
  },
);

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

let version = 0;
let requests = 0;
/** What the router calls each version, by its number. */
const names = new Map<number, string>();

async function start() {
  const edit = (bad: boolean): void => {
    version += 1;
    const text = `export const VERSION = ${version};\nexport const BAD = ${bad};\n`;
    writeFileSync(join(folder, 'version.ts'), text);
  };
  writeFileSync(join(folder, 'both.ts'), PLUGIN);
  edit(false);
  const read = () => ({ ...parseConfig(CONFIG, join(folder, 'router.yaml')), files: [] });
  const { config, source } = read();
  const clock = new ManualClock();
  const sent: { readonly request: EngineRequest; readonly sink: EngineSink }[] = [];
  const common = { clock, metrics: NO_METRICS, log: NO_LOG };
  const core = await composeRouter({
    ...common,
    config,
    source,
    seed: 1,
    transportFor: () => ({
      dispatch(request, sink) {
        sent.push({ request, sink });
        return { abort() {}, pause() {}, resume() {} };
      },
      close() {},
    }),
    rolledBack: (reason, older) => reload.rolledBack(reason, older),
  });
  const reload = new RouterReload({
    ...common,
    core,
    started: config,
    files: [],
    read,
    apply: () => undefined,
  });
  const nameIt = (): void => {
    names.set(version, core.host.status().plugins[0]?.version ?? '');
  };
  nameIt();
  /** Sends a request, and looks at who decided what about it. */
  const arrive = (): void => {
    let decision = '';
    const sink: ResponseSink = {
      ...SILENT,
      booked(_, id) {
        decision = id;
      },
    };
    requests += 1;
    core.road.arrive(givenRequest(`r${requests}`, countedTokens(32)), sink);
    const { request } = sent.at(-1) ?? expect.fail('nothing was sent');
    const told = request.hint?.actions[0]?.payload as { readonly version: number; readonly alive: boolean };
    const record = core.decisions?.get(decision);
    expect([record?.policy.version, told.alive]).toEqual([names.get(told.version), true]);
    expect(record?.classification?.overrides).toEqual({ scheduling_cost_tokens: told.version });
    if (record?.pick.by === 'policy') expect(Number(request.worker.spec.id) - 1).toBe(told.version % 2);
  };
  const endAll = (): void => {
    for (const { sink } of sent.splice(0)) sink.finished(REPORT);
  };
  return {
    clock,
    core,
    arrive,
    endAll,
    end: (which: number): void => sent.splice(which % Math.max(1, sent.length), 1)[0]?.sink.finished(REPORT),
    /** Edits and reloads while requests come, and those that are under way end. */
    async edit(bad: boolean): Promise<void> {
      edit(bad);
      let over = false;
      const done = reload.request('file').finally(() => {
        over = true;
        nameIt();
      });
      for (let turns = 0; !over; turns += 1) {
        if (turns < 5) arrive();
        else endAll();
        await turn();
      }
      expect((await done).result).toBe('applied');
    },
  };
}

test('every envelope and classification is of the version that chose the worker, and of one that is not disposed', async () => {
  const seen = new Set<string>();
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const { arrive, clock, core, edit, end, endAll } = await start();
      for (const event of steps) {
        if (event.do === 'wait') clock.advanceTo(clock.now() + event.ms);
        else if (event.do === 'end') end(event.which);
        else if (event.do === 'edit') await edit(event.bad);
        else for (let count = 0; count < event.count; count += 1) arrive();
        await turn();
        const { other, refused } = core.host.status();
        seen.add(other?.state ?? 'one');
        if (refused.length > 0) seen.add('rolled back');
      }
      endAll();
      await core.close();
    }),
    { numRuns: 15, seed: 5 },
  );
  // The run has been through all of it.
  expect(heard.filter(({ alive }) => !alive)).toEqual([]);
  expect(new Set(heard.map(({ kind }) => kind))).toEqual(new Set(['sent', 'completed']));
  expect([...seen].sort()).toEqual(['draining', 'one', 'rolled back', 'standby']);
});
