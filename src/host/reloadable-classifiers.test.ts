// Request classifiers across reloads: who answers a request that waits, when the older classifiers go, what partitions get.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { ConfigError, parseConfig } from '../config/index.ts';
import { ManualClock, NO_LOG } from '../plugin/index.ts';
import type { ClassifierFacts, ClassifierOutcome, RequestLifecycle } from './classifier-types.ts';
import { createReloadableHost, type PluginHostOptions, type ReloadableHost } from './index.ts';

const folders: string[] = [];
const events: string[] = [];
/** Answers that plugins wait for, by version and request. */
const answers = new Map<string, (overrides: object) => void>();
Reflect.set(globalThis, 'reloadClassifierTest', { events, answers });
afterEach(() => {
  events.length = 0;
  answers.clear();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** A classifier that notes its life; `body` answers. */
const plugin = (version: string, body = ''): string =>
  `import { defineRequestClassifier } from 'pointsman/plugin';
const { events, answers } = globalThis.reloadClassifierTest;
const note = (what: string): void => void events.push('${version} ' + what);
export default defineRequestClassifier({
  type: 'noted',
  create: ({ partition }) => {
    if (partition.model === 'refused by ${version}') throw new Error('not here');
    note('create ' + partition.model);
    return {
      classify: ({ requestId }) => { ${body} },
      onEvent: ({ kind, requestId }) => note(kind + ' ' + requestId),
      dispose: () => note('dispose ' + partition.model),
    };
  },
});
`;
const LATER = (version: string): string =>
  `return new Promise((resolve) => void answers.set('${version} ' + requestId, resolve));`;

const YAML = 'plugins: [./p.ts]\nmodels: { tiny: {} }\nrequest_classifier: { type: noted, max_wait: 1h }\n';
const WITHOUT = 'plugins: [./p.ts]\nmodels: { tiny: {} }\n';

async function start(text: string, yaml = YAML, more: Partial<PluginHostOptions> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'reload-classifiers-'));
  folders.push(folder);
  const write = (content: string): void => writeFileSync(join(folder, 'p.ts'), content);
  write(text);
  const clock = new ManualClock();
  const rolledBack: string[] = [];
  const parsed = (wanted: string) => parseConfig(wanted, join(folder, 'router.yaml'));
  const host = await createReloadableHost({ ...parsed(yaml), clock, log: NO_LOG, ...more }, ({ reason }) => {
    rolledBack.push(reason);
  });
  const reload = (wanted = yaml): Promise<boolean> =>
    host.reload({
      ...parsed(wanted),
      modules: {},
      packages: true,
      refuse: () => [],
      switched: () => undefined,
    });
  return { clock, host, reload, rolledBack, write };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const of = (model: string) => ({ model, routingGroup: 'default' });

const facts = (requestId: string): ClassifierFacts => ({
  requestId,
  session: null,
  promptTokens: 10,
  policyClass: null,
  arrivedAt: 0,
  pinnedWorker: null,
});

/** Asks, and keeps what the answer was. */
function ask(host: ReloadableHost, requestId: string, model = 'tiny') {
  const lifecycle: RequestLifecycle | undefined = host.classifierFor(of(model))?.begin(facts(requestId));
  const outcomes: ClassifierOutcome[] = [];
  lifecycle?.classify((outcome) => outcomes.push(outcome));
  return { lifecycle, outcomes };
}

describe('a classification that waits across a reload', () => {
  it('is answered by the classifier that was asked, which hears the end and goes after it', async () => {
    const { clock, host, reload, write } = await start(plugin('v1', LATER('v1')));
    const before = ask(host, 'r1');
    write(plugin('v2', `return { schedulingCostTokens: 2 };`));
    expect(await reload()).toBe(true);
    expect(host.status()).toMatchObject({ generation: 2, other: { generation: 1, bookings: 1 } });
    expect(host.classifiersUnsettled()).toBe(true);
    // The same id is another request to another classifier.
    const after = ask(host, 'r1');
    expect(after.outcomes).toMatchObject([{ classification: { overrides: { schedulingCostTokens: 2 } } }]);

    answers.get('v1 r1')?.({ schedulingCostTokens: 1 });
    await turn();
    expect(before.outcomes).toMatchObject([{ classification: { overrides: { schedulingCostTokens: 1 } } }]);
    expect(host.classifiersUnsettled()).toBe(false);
    // Another reload ends the probation, and waits for those that the first generation still serves.
    write(plugin('v3'));
    const third = reload();
    await turn();
    expect(host.status()).toMatchObject({ generation: 2, other: { state: 'draining', bookings: 1 } });
    before.lifecycle?.sent({ workerId: 1n, rank: 0 });
    before.lifecycle?.completed({ workerId: 1n, rank: 0 });
    expect(await third).toBe(true);
    expect(events).toEqual([
      'v1 create tiny',
      'v2 create tiny',
      'v1 sent r1',
      'v1 completed r1',
      'v1 dispose tiny',
      'v3 create tiny',
    ]);
    expect(clock.now()).toBe(0);
    after.lifecycle?.completed(null);
    await host.dispose();
    expect(events.slice(6)).toEqual(['v2 completed r1', 'v2 dispose tiny', 'v3 dispose tiny']);
  });

  it('is refused when the time of its generation is over, not before', async () => {
    const { clock, host, reload, write } = await start(plugin('v1', LATER('v1')));
    const { lifecycle, outcomes } = ask(host, 'r1');
    write(plugin('v2'));
    await reload();
    clock.advanceTo(59_999);
    await turn();
    expect([outcomes, events.includes('v1 dispose tiny')]).toEqual([[], false]);
    clock.advanceTo(60_000);
    await turn();
    expect(outcomes).toMatchObject([{ kind: 'refused', error: { code: 'PM_SHUTTING_DOWN' } }]);
    lifecycle?.aborted(null, 'PM_SHUTTING_DOWN');
    expect(events).toEqual(['v1 create tiny', 'v2 create tiny', 'v1 dispose tiny']);
    expect(host.status().other).toBeNull();
    expect(ask(host, 'r2').outcomes).toMatchObject([{ kind: 'classified' }]);
    await host.dispose();
  });

  it('goes on where the newer classifier is taken back', async () => {
    const { host, reload, rolledBack, write } = await start(plugin('v1', LATER('v1')));
    const { outcomes } = ask(host, 'old');
    write(plugin('v2', `throw new Error('never');`));
    await reload();
    for (let call = 0; call < 5; call += 1) ask(host, `r${call}`).lifecycle?.aborted(null, null);
    await turn();
    expect(rolledBack).toEqual([
      expect.stringMatching(
        /^generation 2 was rolled back to 1: noted \(request classifier, version [0-9a-f]{12}\) tripped its breaker within its first 5 calls, 5 of them failed and 0 took too long$/,
      ),
    ]);
    answers.get('v1 old')?.({});
    await turn();
    expect(outcomes).toMatchObject([{ kind: 'classified' }]);
    await host.dispose();
  });
});

describe('a reload that changes the classifier', () => {
  it('takes another one, none, and one again', async () => {
    const [head = '', definition = ''] = plugin('v1').split('export default ');
    const both = `${head}export const one = ${definition}export const two = ${definition.replace("'noted'", "'other'")}`;
    const { clock, host, reload } = await start(both);
    const types: (string | null)[] = [host.classifier()?.type ?? null];
    for (const yaml of [YAML.replace('noted', 'other'), WITHOUT, YAML]) {
      expect(await reload(yaml)).toBe(true);
      types.push(host.classifier()?.type ?? null);
      expect(host.classifierFor(of('tiny')) === null).toBe(yaml === WITHOUT);
      clock.advanceTo(clock.now() + 60_000);
      await turn();
    }
    expect(types).toEqual(['noted', 'other', null, 'noted']);
    expect(events.filter((event) => event.includes('create')).length).toBe(3);
    expect(events.filter((event) => event.includes('dispose')).length).toBe(2);
    await host.dispose();
    expect(host.status().plugins[0]?.types.map(({ kind }) => kind)).toEqual([
      'request-classifier',
      'request-classifier',
    ]);
  });

  it('of other settings puts it on probation, and takes them back', async () => {
    const failing = plugin('v1', `throw new Error('never');`);
    const { host, reload, rolledBack } = await start(failing, WITHOUT);
    expect(await reload(YAML)).toBe(true);
    for (let call = 0; call < 5; call += 1) ask(host, `r${call}`).lifecycle?.aborted(null, null);
    await turn();
    expect(rolledBack).toHaveLength(1);
    expect(host.classifier()).toBeNull();
    await expect(reload(YAML)).rejects.toThrow(/these settings are not tried again until they change/);
    expect(await reload(YAML.replace('1h', '2s'))).toBe(true);
    await host.dispose();
  });

  it('creates it for partitions that appeared after the start, and is refused where that fails', async () => {
    const { host, reload, write } = await start(plugin('v1'));
    ask(host, 'r1', 'appeared');
    ask(host, 'r2', 'refused by v2');
    write(plugin('v2'));
    const wrong = await reload().then(
      () => 'nothing',
      (thrown: unknown) => (thrown instanceof ConfigError ? thrown.problems[0]?.message : thrown),
    );
    expect(wrong).toBe('create of request classifier noted threw for model refused by v2: not here');
    expect(events.filter((event) => event.startsWith('v2'))).toEqual([
      'v2 create tiny',
      'v2 create appeared',
      'v2 dispose appeared',
      'v2 dispose tiny',
    ]);
    write(plugin('v3'));
    expect(await reload()).toBe(true);
    expect(events.filter((event) => event.startsWith('v3')).sort()).toEqual([
      'v3 create appeared',
      'v3 create refused by v2',
      'v3 create tiny',
    ]);
    await host.dispose();
  });

  it('creates the first one for partitions that others decided about so far', async () => {
    const { host, reload } = await start(plugin('v1'), WITHOUT);
    host.roleRuntime(of('appeared'), 'aggregated', 16);
    await reload(YAML);
    expect(events).toEqual(['v1 create tiny', 'v1 create appeared']);
    await host.dispose();
  });
});

describe('policies of the program', () => {
  it('are registered anew with every generation that is built', async () => {
    const calls: string[] = [];
    const { host, reload, write } = await start(plugin('v1'), YAML, {
      register: () => void calls.push('register'),
    });
    expect(await reload()).toBe(false);
    expect(calls).toHaveLength(1);
    write(plugin('v2'));
    await reload();
    expect(calls).toHaveLength(2);
    await host.dispose();
  });
});
