// Reloads of a composed router: how often it reads, what it keeps, what it says.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { selectionFacts } from '../../tests/support/selection-facts.ts';
import { parseConfig, type RouterConfig } from '../config/index.ts';
import { createMetrics } from '../observe/index.ts';
import { ManualClock, NO_LOG } from '../plugin/index.ts';
import { composeRouter } from './compose-router.ts';
import { RouterReload } from './router-reload.ts';

const closers: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

const BASE = 'models: { tiny: { block_size: 16, tokens: { source: estimate } } }\n';

async function start(yaml: string, files: Readonly<Record<string, string>> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'reload-'));
  closers.push(() => rmSync(folder, { recursive: true }));
  const write = (name: string, text: string): void => {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  };
  for (const [name, text] of Object.entries(files)) write(name, text);
  const parse = (text: string) => parseConfig(BASE + text, join(folder, 'router.yaml'));
  const { config, source } = parse(yaml);
  const clock = new ManualClock(1000);
  const metrics = createMetrics();
  const applied: RouterConfig[] = [];
  let text = yaml;
  let reads = 0;
  const core = await composeRouter({
    config,
    source,
    clock,
    seed: 1,
    metrics,
    log: NO_LOG,
    transportFor: () => {
      throw new Error('nothing is sent');
    },
    rolledBack: (reason, older) => reload.rolledBack(reason, older),
  });
  closers.push(() => core.close());
  const reload = new RouterReload({
    core,
    started: config,
    files: [],
    read: () => {
      reads += 1;
      return parse(text);
    },
    apply: (next) => applied.push(next),
    clock,
    metrics,
    log: NO_LOG,
  });
  const counted = async (name: string): Promise<string[]> =>
    (await metrics.text()).split('\n').filter((line) => line.startsWith(name));
  return {
    applied,
    core,
    counted,
    folder,
    reload,
    write,
    reads: () => reads,
    /** The configuration says something else from now on. */
    say: (next: string): void => {
      text = next;
    },
  };
}

describe('reloads', () => {
  it('asked for while one is under way become one more, whoever asks', async () => {
    const { reads, reload, say } = await start('');
    const first = reload.request('file');
    const rest = [reload.request('file'), reload.request('command'), reload.request('file')];
    say('router: { mode: random }\n');
    expect((await first).result).toBe('unchanged');
    const reports = await Promise.all(rest);
    expect(reads()).toBe(2);
    expect(new Set(reports).size).toBe(1);
    expect(reports[0]).toMatchObject({ result: 'applied', trigger: 'command', generation: 2 });
    expect((await reload.request('signal')).result).toBe('unchanged');
    expect(reads()).toBe(3);
  });

  it('take everything or nothing, and count and tell what is wrong', async () => {
    const { applied, counted, core, reload, say } = await start('limits: { body_bytes: 1MiB }\n');
    say('limits: { body_bytes: 2MiB }\nworker_selection: { aggregated: nosuch, decode: neither }\n');
    const failed = await reload.request('command');
    expect(failed.result).toBe('failed');
    expect(failed.problems).toEqual([
      expect.stringMatching(
        /router\.yaml:3:33: worker_selection\.aggregated: unknown worker-selection policy "nosuch"/,
      ),
      expect.stringMatching(
        /router\.yaml:3:49: worker_selection\.decode: unknown worker-selection policy "neither"/,
      ),
    ]);
    say('limits: { body_bytes: 2MiBs }\n');
    expect((await reload.request('command')).problems).toEqual([expect.stringMatching(/limits\.body_bytes/)]);
    say('workers: [{ id: 1, url: "http://127.0.0.1:1", dialect: auto, capabilities: none }]\n');
    expect((await reload.request('command')).problems).toEqual([
      expect.stringMatching(/workers\[0\]\.dialect/),
    ]);
    expect([applied, reload.config.limits.bodyBytes, core.host.status().generation]).toEqual([
      [],
      2 ** 20,
      1,
    ]);
    say('limits: { body_bytes: 2MiB }\n');
    expect(await reload.request('command')).toMatchObject({ result: 'applied', generation: 1 });
    expect(applied.map(({ limits }) => limits.bodyBytes)).toEqual([2 * 2 ** 20]);
    expect(await counted('pointsman_config_reload_failed_total')).toEqual([
      'pointsman_config_reload_failed_total 3',
    ]);
    expect(await counted('pointsman_reloads_total')).toEqual([
      'pointsman_reloads_total{result="failed"} 3',
      'pointsman_reloads_total{result="applied"} 1',
    ]);
    expect(await counted('pointsman_config_generation')).toEqual(['pointsman_config_generation 1']);
  });

  it('look at packages when they are asked for, and not when a file changed', async () => {
    const pack = (n: number): string => `import { defineHintPolicy } from 'pointsman/plugin';
export default defineHintPolicy({ type: 'pack-${n}', create: () => ({ buildHints: () => [] }) });
`;
    const { core, folder, reload, write } = await start('plugins: [./local.mjs, "@acme/p"]\n', {
      'local.mjs': pack(0),
      'node_modules/@acme/p/package.json':
        '{ "name": "@acme/p", "version": "1.0.0", "exports": "./main.mjs" }',
      'node_modules/@acme/p/main.mjs': pack(10),
    });
    const listed = (): unknown[] =>
      core.host.status().plugins.flatMap(({ types }) => types.map(({ type }) => type));
    expect(listed()).toEqual(['pack-0', 'pack-10']);
    write('node_modules/@acme/p/main.mjs', pack(11));
    expect((await reload.request('file')).result).toBe('unchanged');
    write('local.mjs', pack(1));
    expect((await reload.request('file')).result).toBe('applied');
    expect(listed()).toEqual(['pack-1', 'pack-10']);
    expect((await reload.request('command')).result).toBe('applied');
    expect([listed(), reload.files]).toEqual([['pack-1', 'pack-11'], [join(folder, 'local.mjs')]]);
  });

  it('that are rolled back give the policies back and keep what else was reloaded', async () => {
    const text = `import { defineWorkerSelectionPolicy, pickWorker } from 'pointsman/plugin';
export default defineWorkerSelectionPolicy({
  type: 'mine',
  create: () => ({ picker: pickWorker({ pick: () => { throw new Error('never'); } }) }),
});
`;
    const { applied, core, counted, reload, say } = await start('', { 'mine.ts': text });
    say('plugins: [./mine.ts]\nworker_selection: { aggregated: mine }\nlimits: { body_bytes: 2MiB }\n');
    expect((await reload.request('command')).result).toBe('applied');
    const runtime = core.host.roleRuntime({ model: 'tiny', routingGroup: 'default' }, 'aggregated', 16);
    const { createCandidateTable } = await import('../host/index.ts');
    const table = createCandidateTable(1);
    table.count = 1;
    const facts = selectionFacts(1);
    for (let call = 0; call < 5; call += 1) expect(() => runtime.select(table, facts)).toThrow();
    await Promise.resolve();
    expect(reload.last).toMatchObject({
      result: 'rolled_back',
      generation: 1,
      reason: expect.stringContaining('mine'),
    });
    const [, after] = applied;
    expect([after?.limits.bodyBytes, after?.plugins, after?.workerSelection]).toEqual([2 * 2 ** 20, [], {}]);
    expect(reload.config).toBe(after);
    expect(await counted('pointsman_plugin_rollbacks_total')).toEqual(['pointsman_plugin_rollbacks_total 1']);
    expect((await reload.request('signal')).problems).toEqual([
      expect.stringContaining('is not tried again'),
    ]);
  });

  it('that are asked for while the router stops fail in words', async () => {
    const { reload } = await start('');
    await reload.close();
    expect(await reload.request('signal')).toMatchObject({
      result: 'failed',
      reason: 'the router is stopping',
    });
  });
});
