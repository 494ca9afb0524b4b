// Budgets and breakers through a configured host: what the stage and the selection do, and what is told to whom.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { selectionFacts } from '../../tests/support/selection-facts.ts';
import { parseConfig } from '../config/index.ts';
import { createMetrics } from '../observe/index.ts';
import { type LogFields, ManualClock, NO_LOG } from '../plugin/index.ts';
import { hintBooking, hintFleet } from './hint.fixtures.ts';
import { createCandidateTable, createPluginHost, type RunningPlugin } from './index.ts';

/** Where the policies find the time that they let pass. */
const TIME = Symbol.for('pointsman-test-containment');

// The policies do what the prompt's length says: 1 = throw, 2 = take 2 ms, 3 = answer that nobody is left.
const PLUGIN = `import { defineHintPolicy, defineWorkerSelectionPolicy, filterWorkers, pickWorker } from 'pointsman/plugin';
const act = (promptTokens) => {
  if (promptTokens === 1) throw new Error('as told');
  if (promptTokens === 2) globalThis[Symbol.for('pointsman-test-containment')].pass(2);
};
export const told = defineHintPolicy({
  type: 'told',
  create: () => ({ buildHints: ({ promptTokens }) => (act(promptTokens), []) }),
});
export const good = defineHintPolicy({
  type: 'good',
  create: () => ({ buildHints: () => [{ type: 'acme.mark', version: '1.0', payload: {} }] }),
});
export const choosy = defineWorkerSelectionPolicy({
  type: 'choosy',
  create: () => ({
    filters: [filterWorkers({ keep: (_candidate, request) => request.promptTokens !== 3 })],
    picker: pickWorker({ pick: (_candidates, request) => (act(request.promptTokens), 0) }),
  }),
});
`;

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'contain-'));
  writeFileSync(join(folder, 'told.mjs'), PLUGIN);
});
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
  Reflect.deleteProperty(globalThis, TIME);
});

const partition = { model: 'tiny', routingGroup: 'default' };
const FAILS = 1;
const SLOW = 2;
const NOBODY = 3;
const FINE = 100;

async function contained(yaml = '', timed = true) {
  const clock = new ManualClock(1_000_000);
  Reflect.set(globalThis, TIME, { pass: (ms: number) => clock.advanceTo(clock.now() + ms) });
  const logged: { level: string; message: string; fields: LogFields | undefined }[] = [];
  const noted: number[] = [];
  const running: RunningPlugin = {
    register: (place) => (place.part === 'hint' ? 7 : 8),
    note: (id) => noted.push(id),
  };
  const metrics = createMetrics();
  const { config, source } = parseConfig(
    `plugins: [./told.mjs]
worker_selection: { aggregated: { type: choosy, hints: [{ type: told, name: first }, { type: good }] } }
${yaml}`,
    join(folder, 'router.yaml'),
  );
  const host = await createPluginHost({
    config,
    source,
    clock,
    metrics,
    log: {
      ...NO_LOG,
      info: (message, fields) => logged.push({ level: 'info', message, fields }),
      warn: (message, fields) => logged.push({ level: 'warn', message, fields }),
    },
    ...(timed ? { containment: { wallMs: () => clock.now(), running } } : {}),
    fleet: hintFleet(),
  });
  const runtime = host.roleRuntime(partition, 'aggregated', 16);
  noted.length = 0;
  /** Results of the first policy; the second must have been sent each time. */
  const hint = (promptTokens: number, times = 1): string[] =>
    Array.from({ length: times }, () => {
      const [first, second] = runtime.hintStage?.run(hintBooking({ promptTokens })).policies ?? [];
      expect(second).toMatchObject({ name: 'good', result: 'sent' });
      return first?.reason ?? first?.result ?? 'did not run';
    });
  const table = createCandidateTable(1);
  table.count = 1;
  const select = (promptTokens: number, times = 1): string[] =>
    Array.from({ length: times }, () => {
      try {
        const facts = selectionFacts(promptTokens);
        return `row ${runtime.select(table, facts).row}`;
      } catch (thrown) {
        return String(Reflect.get(Object(thrown), 'code'));
      }
    });
  const metric = async (name: string): Promise<string[]> =>
    (await metrics.text()).split('\n').filter((line) => line.startsWith(name));
  const status = (part: 'hint' | 'selection', plugin: string) =>
    host.containment().find((one) => one.role === 'aggregated' && one.part === part && one.plugin === plugin);
  return { host, runtime, clock, logged, noted, hint, select, metric, status };
}

const many = (count: number, text: string): string[] => Array(count).fill(text);

describe('a hint policy that fails', () => {
  it('is skipped from the 5th failure on for 10 s, probed once, and called again when the probe goes well', async () => {
    const { clock, hint, logged, metric, status } = await contained();
    expect(hint(FAILS, 7)).toEqual([...many(5, 'threw'), ...many(2, 'tripped')]);
    clock.advanceTo(clock.now() + 9_999);
    expect(status('hint', 'first')).toEqual({
      role: 'aggregated',
      part: 'hint',
      plugin: 'first',
      state: 'tripped',
      failures: 5,
      overruns: 0,
      trips: 1,
      skips: 2,
      retryInMs: 1,
      version: expect.stringMatching(/^[0-9a-f]{12}$/),
    });
    expect(hint(FINE)).toEqual(['tripped']);
    clock.advanceTo(clock.now() + 1);
    expect(hint(FAILS, 2)).toEqual(['threw', 'tripped']);
    clock.advanceTo(clock.now() + 10_000);
    expect(hint(FINE, 3)).toEqual(many(3, 'nothing'));
    expect(status('hint', 'first')).toMatchObject({ state: 'ok', trips: 2, skips: 4, retryInMs: 0 });
    const told = logged.filter(({ fields }) => fields?.plugin === 'first');
    expect(told.map(({ level, message }) => [level, message])).toEqual([
      ['warn', 'a plugin is skipped for a while'],
      ['warn', 'a plugin is skipped for a while'],
      ['info', 'a plugin is called again'],
    ]);
    expect(await metric('pointsman_plugin_trips_total{')).toEqual([
      'pointsman_plugin_trips_total{plugin="first",role="aggregated",part="hint"} 2',
    ]);
    expect(await metric('pointsman_plugin_skips_total{')).toEqual([
      'pointsman_plugin_skips_total{plugin="first",role="aggregated",part="hint"} 4',
    ]);
  });

  it('keeps to the numbers of the configuration', async () => {
    const { clock, hint } = await contained(
      'containment: { breaker: { failures: 2, window: 1s, skip: 3s } }',
    );
    expect(hint(FAILS)).toEqual(['threw']);
    clock.advanceTo(clock.now() + 1_001);
    expect(hint(FAILS, 3)).toEqual(['threw', 'threw', 'tripped']);
    clock.advanceTo(clock.now() + 3_000);
    expect(hint(FINE)).toEqual(['nothing']);
  });
});

describe('a policy that takes longer than the budget', () => {
  it('is counted, and tripped by the 50th call', async () => {
    const { hint, select, metric, status, logged } = await contained();
    expect(hint(SLOW, 49)).toEqual(many(49, 'nothing'));
    expect(status('hint', 'first')).toMatchObject({ state: 'ok', overruns: 49, failures: 0 });
    expect(hint(SLOW, 2)).toEqual(['nothing', 'tripped']);
    expect(select(SLOW, 51)).toEqual([...many(50, 'row 0'), 'PM_SELECTION_TRIPPED']);
    expect(await metric('pointsman_plugin_overruns_total{')).toEqual([
      'pointsman_plugin_overruns_total{plugin="first",role="aggregated",part="hint"} 50',
      'pointsman_plugin_overruns_total{plugin="choosy",role="aggregated",part="selection"} 50',
    ]);
    expect(logged.map(({ fields }) => fields?.why)).toEqual(many(2, 'too many calls over the budget'));
  });

  it('may take as long as it likes with a budget of 0, or where there is no wall clock', async () => {
    for (const [yaml, timed] of [
      ['containment: { soft_budget: 0ms }', true],
      ['', false],
    ] as const) {
      // One after the other: the policy takes the time of whoever was made last.
      const { hint, status } = await contained(yaml, timed);
      expect(hint(SLOW, 60)).toEqual(many(60, 'nothing'));
      expect(status('hint', 'first')).toMatchObject({ overruns: 0 });
    }
  });
});

describe('a worker-selection policy', () => {
  it('trips by its failures and not by answering that nobody is left', async () => {
    const { clock, select, status, runtime } = await contained();
    expect(select(NOBODY, 10)).toEqual(many(10, 'PM_SELECTION_ALL_FILTERED'));
    expect(select(FAILS, 6)).toEqual([...many(5, 'PM_PLUGIN_THREW'), 'PM_SELECTION_TRIPPED']);
    expect(status('selection', 'choosy')).toMatchObject({ failures: 5, trips: 1, skips: 1 });
    clock.advanceTo(clock.now() + 10_000);
    expect(select(NOBODY)).toEqual(['PM_SELECTION_ALL_FILTERED']);
    expect(select(FINE)).toEqual(['row 0']);
    expect(runtime.refusesWhenTripped).toBe(false);
    const refusing = await contained('containment: { tripped: { worker_selection: refuse } }');
    expect(refusing.runtime.refusesWhenTripped).toBe(true);
  });

  it('trips in its role alone, whatever the partition', async () => {
    const { host, select, status } = await contained();
    select(FAILS, 5);
    const elsewhere = host.roleRuntime({ model: 'other', routingGroup: 'default' }, 'aggregated', 16);
    expect(() => elsewhere.select(createCandidateTable(0), Object(null))).toThrow('is skipped for a while');
    expect(status('selection', 'choosy')).toMatchObject({ state: 'tripped', skips: 1 });
  });
});

describe('whoever watches', () => {
  it('hears which plugin runs and that it does not run any more, also when it throws', async () => {
    const { hint, select, noted } = await contained();
    hint(FAILS);
    expect(noted).toEqual([7, 0, 7, 0]);
    noted.length = 0;
    select(FAILS);
    expect(noted).toEqual([8, 0]);
  });

  it('is not told of built-in policies, which have no breaker', async () => {
    const { config, source } = parseConfig(
      'worker_selection: { aggregated: { hints: [{ type: kv_fetch }] } }',
      'r.yaml',
    );
    const host = await createPluginHost({ config, source, clock: new ManualClock(), log: NO_LOG });
    host.roleRuntime(partition, 'aggregated', 16);
    expect(host.containment()).toEqual([]);
  });
});
