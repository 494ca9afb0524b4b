// Reloads of real plugin files: what is built, what serves, what is taken back, and when the old is disposed.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { selectionFacts } from '../../tests/support/selection-facts.ts';
import { ConfigError, parseConfig } from '../config/index.ts';
import { ManualClock, NO_LOG, type Partition } from '../plugin/index.ts';
import {
  createCandidateTable,
  createReloadableHost,
  type ReloadableHost,
  type RoleRuntime,
} from './index.ts';

const folders: string[] = [];
const events: string[] = [];
/** Plugins note here what happens to them. */
Reflect.set(globalThis, 'reloadTestEvents', events);
afterEach(() => {
  events.length = 0;
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** A selection policy that notes its life; `pick` is the body of its picker. */
const plugin = (version: string, pick = 'return 0;', more = ''): string =>
  `import { defineWorkerSelectionPolicy, pickWorker } from 'pointsman/plugin';
const note = (what: string): void => void globalThis.reloadTestEvents.push('${version} ' + what);
note('evaluated');
export default defineWorkerSelectionPolicy({
  type: 'noted',
  ${more}
  create: ({ partition, role }) => {
    note('create ' + partition?.model + ' ' + role);
    return {
      picker: pickWorker({ pick: () => { ${pick} } }),
      dispose: () => note('dispose ' + partition?.model + ' ' + role),
    };
  },
});
`;

const YAML = 'plugins: [./p.ts]\nworker_selection: { aggregated: noted }\n';
const tiny: Partition = { model: 'tiny', routingGroup: 'default' };

async function start(text = plugin('v1'), yaml = YAML) {
  const folder = mkdtempSync(join(tmpdir(), 'reloadable-'));
  folders.push(folder);
  const write = (content: string, name = 'p.ts'): void => writeFileSync(join(folder, name), content);
  write(text);
  const clock = new ManualClock();
  const rolledBack: string[] = [];
  const parsed = (wanted: string) => parseConfig(wanted, join(folder, 'router.yaml'));
  const host = await createReloadableHost({ ...parsed(yaml), clock, log: NO_LOG }, ({ reason }) => {
    rolledBack.push(reason);
  });
  let switches = 0;
  const reload = (wanted = yaml): Promise<boolean> =>
    host.reload({
      ...parsed(wanted),
      modules: {},
      packages: true,
      refuse: () => [],
      switched: () => {
        switches += 1;
      },
    });
  return {
    clock,
    host,
    rolledBack,
    write,
    switches: () => switches,
    reload,
    /** What is wrong with a reload. */
    async refused(wanted = yaml): Promise<string> {
      try {
        await reload(wanted);
      } catch (thrown) {
        if (thrown instanceof ConfigError) return thrown.problems.map(({ message }) => message).join('\n');
        throw thrown;
      }
      return 'nothing';
    },
  };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const facts = selectionFacts(16);

const runtime = (host: ReloadableHost, model = 'tiny'): RoleRuntime =>
  host.roleRuntime({ ...tiny, model }, 'aggregated', 16);

/** Row picked by a runtime, or the code of its error. */
function pick(chosen: RoleRuntime): number | string {
  const table = createCandidateTable(4);
  table.count = 2;
  try {
    return chosen.select(table, facts).row;
  } catch (thrown) {
    return thrown instanceof Error && 'code' in thrown ? String(thrown.code) : String(thrown);
  }
}

/** Lives that began and did not end, by version and site. */
const alive = (): string[] => {
  const left = events
    .filter((event) => event.includes('create'))
    .map((event) => event.replace('create ', ''));
  for (const event of events.filter((one) => one.includes('dispose'))) {
    left.splice(left.indexOf(event.replace('dispose ', '')), 1);
  }
  return left.sort();
};

describe('a reload', () => {
  it('builds every partition that appeared before anything switches, and drains the old', async () => {
    const { clock, host, reload, write } = await start();
    for (const model of ['tiny', 'big']) runtime(host, model);
    expect(alive()).toEqual(['v1 big aggregated', 'v1 tiny aggregated']);
    write(plugin('v2', 'return 1;'));
    const before = runtime(host);
    expect(await reload()).toBe(true);
    const now = runtime(host);
    expect([pick(before), pick(now), now.policy.version === before.policy.version]).toEqual([0, 1, false]);
    expect(alive()).toEqual([
      'v1 big aggregated',
      'v1 tiny aggregated',
      'v2 big aggregated',
      'v2 tiny aggregated',
    ]);
    expect(host.status()).toMatchObject({
      generation: 2,
      other: { generation: 1, state: 'standby', bookings: 0 },
      probation: { endsInMs: 60_000, calls: 1 },
    });
    clock.advanceTo(60_000);
    await turn();
    expect(alive()).toEqual(['v2 big aggregated', 'v2 tiny aggregated']);
    expect(host.status()).toMatchObject({ generation: 2, other: null, probation: null });
    await host.dispose();
    expect(alive()).toEqual([]);
  });

  it('of the same content evaluates and builds nothing', async () => {
    const { host, reload, switches, write } = await start();
    const before = runtime(host);
    const noted = [...events];
    write(plugin('v1'));
    expect(await reload()).toBe(false);
    expect([runtime(host) === before, events, switches()]).toEqual([true, noted, 1]);
    expect(host.status().generation).toBe(1);
    await host.dispose();
  });

  it('of other settings alone builds anew without evaluating the module again', async () => {
    const { host, reload } = await start();
    expect(await reload('plugins: [./p.ts]\nworker_selection: { aggregated: noted, decode: noted }\n')).toBe(
      true,
    );
    expect(events.filter((event) => event.includes('evaluated'))).toEqual(['v1 evaluated']);
    await host.dispose();
  });

  it('holds a generation for its bookings, for 60 s at most', async () => {
    const { clock, host, reload, write } = await start();
    const booked = runtime(host).hold;
    booked?.retain();
    write(plugin('v2'));
    await reload();
    for (let call = 0; call <= 200; call += 1) pick(runtime(host));
    await turn();
    expect(host.status()).toMatchObject({ probation: null, other: { state: 'draining', bookings: 1 } });
    clock.advanceTo(59_999);
    await turn();
    expect(alive()).toContain('v1 tiny aggregated');
    booked?.release();
    await turn();
    expect([alive(), host.status().other]).toEqual([['v2 tiny aggregated'], null]);
    await host.dispose();
  });

  it('disposes a shared instance with its generation, once', async () => {
    const { clock, host, reload, write } = await start(plugin('v1', 'return 0;', `scope: 'shared',`));
    for (const model of ['a', 'b']) runtime(host, model);
    write(plugin('v2', 'return 0;', `scope: 'shared',`));
    await reload();
    clock.advanceTo(60_000);
    await turn();
    await host.dispose();
    expect(events.filter((event) => event.includes('dispose'))).toEqual([
      'v1 dispose undefined undefined',
      'v2 dispose undefined undefined',
    ]);
  });

  it('that fails anywhere changes nothing and leaves nothing behind', async () => {
    const { host, refused, switches, write } = await start();
    runtime(host, 'appeared');
    const before = runtime(host);
    write(`${plugin('v2')};;export const broken = ;`);
    expect(await refused()).toMatch(/^cannot load \.\/p\.ts: .*p\.ts:\d+:\d+/);
    write(
      plugin('v3').replace(
        `note('create`,
        `if (partition?.model === 'appeared') throw new Error('not here');\nnote('create`,
      ),
    );
    expect(await refused()).toContain(
      'create of worker-selection policy noted threw for role aggregated: not here',
    );
    write(plugin('v4'));
    expect(
      await refused('plugins: [./p.ts]\nworker_selection: { aggregated: notet, decode: nosuch }\n'),
    ).toMatch(/unknown worker-selection policy "notet".*\n.*unknown worker-selection policy "nosuch"/);
    expect([runtime(host) === before, switches(), host.status().generation]).toEqual([true, 0, 1]);
    expect(alive()).toEqual(['v1 appeared aggregated', 'v1 tiny aggregated']);
    await host.dispose();
  });
});

describe('probation', () => {
  const FAILS = `throw new Error('never');`;

  it('takes a version back that trips its breaker, after the decision, and does not try it again until it changes', async () => {
    const { host, refused, reload, rolledBack, write } = await start();
    const good = runtime(host);
    write(plugin('v2', FAILS));
    await reload();
    const bad = runtime(host);
    for (let call = 0; call < 5; call += 1) expect(pick(bad)).not.toBe(0);
    // Whoever asks in the same turn is in the middle of a decision.
    expect(runtime(host)).toBe(bad);
    await turn();
    expect(runtime(host)).toBe(good);
    const reason =
      /^generation 2 was rolled back to 1: noted \(role aggregated, version ([0-9a-f]{12})\) tripped its breaker within its first 5 calls, 5 of them failed and 0 took too long$/;
    expect(rolledBack).toEqual([expect.stringMatching(reason)]);
    const [, version] = reason.exec(rolledBack[0] ?? '') ?? [];
    expect(host.status()).toMatchObject({
      generation: 1,
      probation: null,
      refused: [{ specifier: './p.ts', version, reason: rolledBack[0], atMs: 0 }],
    });
    expect(alive()).toEqual(['v1 tiny aggregated']);
    expect(await refused()).toBe(
      `version ${version} is not tried again until the file changes: ${rolledBack[0]}`,
    );
    write(plugin('v3', 'return 1;'));
    expect(await reload()).toBe(true);
    expect([pick(runtime(host)), host.status().generation]).toEqual([1, 3]);
    await host.dispose();
  });

  it('takes back settings that make a plugin fail, and tries other ones', async () => {
    const fails = plugin('v1', FAILS);
    const both = 'plugins: [./p.ts]\nworker_selection: { aggregated: noted }\n';
    const { host, refused, reload, rolledBack } = await start(fails, 'plugins: [./p.ts]\n');
    expect(await reload(both)).toBe(true);
    for (let call = 0; call < 5; call += 1) pick(runtime(host));
    await turn();
    expect(runtime(host).policy.type).toBe('dynamo-default-cost-fn');
    expect(await refused(both)).toBe(
      `these settings are not tried again until they change: ${rolledBack[0]}`,
    );
    expect(await reload('plugins: [./p.ts]\nrouter: { seed: 7 }\n')).toBe(true);
    await host.dispose();
  });

  it.each([
    ['after 200 calls', 200, 0],
    ['after 60 s', 0, 60_000],
  ])('is over %s: a trip is then the breaker’s business alone', async (_, calls, ms) => {
    const { clock, host, reload, rolledBack, write } = await start();
    write(plugin('v2', `if (globalThis.reloadTestEvents.includes('fail')) $FAILS\nreturn 0;`));
    await reload();
    for (let call = 0; call < calls; call += 1) pick(runtime(host));
    clock.advanceTo(ms);
    events.push('fail');
    for (let call = 0; call < 5; call += 1) pick(runtime(host));
    await turn();
    expect([rolledBack, host.status().generation]).toEqual([[], 2]);
    expect(host.containment()).toMatchObject([{ state: 'tripped' }]);
    await host.dispose();
  });

  it('is none of a plugin that the reload did not touch', async () => {
    const { host, reload, rolledBack, write } = await start(plugin('v1', FAILS));
    write(plugin('q').replace(`'noted'`, `'other'`), 'q.ts');
    expect(await reload(YAML.replace('./p.ts', './p.ts, ./q.ts'))).toBe(true);
    for (let call = 0; call < 5; call += 1) pick(runtime(host));
    await turn();
    expect([rolledBack, host.status().generation]).toEqual([[], 2]);
    await host.dispose();
  });
});
