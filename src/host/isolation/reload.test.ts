// Threads of plugins across reloads: whose answer a booking that waits gets, when threads begin and end, what refuses a reload.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { ConfigError, parseConfig } from '../../config/index.ts';
import { ManualClock, NO_LOG } from '../../plugin/index.ts';
import { hintBooking, hintFleet } from '../hint.fixtures.ts';
import { createReloadableHost, type HintStageResult, type ReloadableHost } from '../index.ts';
import { openPorts, PARTITION, PORTS_PER_THREAD } from './isolation.fixtures.ts';

/** Ports of the test runner. */
const IDLE_PORTS = openPorts();
const folders: string[] = [];
const hosts: ReloadableHost[] = [];
afterEach(async () => {
  for (const host of hosts.splice(0)) await host.dispose();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** A hint policy that says which version it is. */
const plugin = (version: string, atLoad = '', inCreate = ''): string =>
  `import { isMainThread } from 'node:worker_threads';
import { defineHintPolicy } from 'pointsman/plugin';
${atLoad}
export default defineHintPolicy({
  type: 'marked',
  isolation: 'thread',
  create: ({ partition }) => {
    ${inCreate}
    return { buildHints: () => [{ type: 'acme.mark', version: '1.0', payload: { version: '${version}' } }] };
  },
});
`;

const YAML =
  'plugins: [./p.ts]\nworker_selection: { aggregated: { hints: [{ type: marked, deadline: 1m }] } }\n';

async function start(files: Readonly<Record<string, string>>, yaml = YAML) {
  const folder = mkdtempSync(join(tmpdir(), 'isolation-reload-'));
  folders.push(folder);
  const write = (text: string, name = 'p.ts'): void => writeFileSync(join(folder, name), text);
  for (const [name, text] of Object.entries(files)) write(text, name);
  await until(() => openPorts() <= IDLE_PORTS);
  const clock = new ManualClock(1_000_000);
  const parsed = (wanted: string) => parseConfig(wanted, join(folder, 'router.yaml'));
  const host = await createReloadableHost({
    ...parsed(yaml),
    clock,
    log: NO_LOG,
    fleet: hintFleet(),
    threads: { modules: {} },
  });
  hosts.push(host);
  const reload = (wanted = yaml): Promise<boolean> =>
    host.reload({
      ...parsed(wanted),
      modules: {},
      packages: true,
      refuse: () => [],
      switched: () => undefined,
    });
  return {
    clock,
    host,
    reload,
    write,
    /** Threads that were started here and live. */
    threads: () => (openPorts() - IDLE_PORTS) / PORTS_PER_THREAD,
    /** What is wrong with a reload. */
    async refused(): Promise<string> {
      try {
        await reload();
      } catch (thrown) {
        if (thrown instanceof ConfigError) return thrown.problems.map(({ message }) => message).join('\n');
        throw thrown;
      }
      return 'nothing';
    },
  };
}

/** Starts the hints of a booking, as the road does: the booking holds what made it. */
function book(host: ReloadableHost, model = PARTITION.model) {
  const runtime = host.roleRuntime({ ...PARTITION, model }, 'aggregated', 16);
  runtime.hold?.retain();
  const versions = new Promise<readonly unknown[]>((resolve, reject) => {
    const take = ({ hint, policies }: HintStageResult): void =>
      resolve(hint?.actions.map(({ payload }) => Reflect.get(Object(payload), 'version')) ?? [policies]);
    const started = runtime.threadedHints?.start(hintBooking(), take);
    if (started === undefined) reject(new Error('the role has no thread'));
    else if (!('pending' in started)) take(started);
  });
  return { versions, end: () => runtime.hold?.release() };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function until(done: () => boolean): Promise<void> {
  while (!done()) await turn();
}

describe('a reload', () => {
  it('gives a booking that waits its own version, and ends the older threads with their last booking', async () => {
    const { host, reload, threads, write } = await start({ 'p.ts': plugin('v1') });
    expect(threads()).toBe(1);
    write(plugin('v2'));
    const reloaded = reload();
    // Whatever the reload is about, a booking of now is the first generation's.
    const waiting = book(host);
    expect(await reloaded).toBe(true);
    expect(await waiting.versions).toEqual(['v1']);
    const now = book(host);
    expect(await now.versions).toEqual(['v2']);
    expect([threads(), host.status().other]).toEqual([2, { generation: 1, state: 'standby', bookings: 1 }]);
    now.end();

    write(plugin('v3'));
    const third = reload();
    await until(() => host.status().other?.state === 'draining');
    // The older thread still answers for what is booked with it.
    expect(threads()).toBe(2);
    waiting.end();
    expect(await third).toBe(true);
    await until(() => threads() === 2);
    expect(await book(host).versions).toEqual(['v3']);
    await host.dispose();
    await until(() => threads() === 0);
  });

  it('ends the older threads when their time is over, whatever is still booked', async () => {
    const { clock, host, reload, threads, write } = await start({ 'p.ts': plugin('v1') });
    expect(await book(host).versions).toEqual(['v1']);
    write(plugin('v2'));
    await reload();
    clock.advanceTo(clock.now() + 59_999);
    await turn();
    expect(threads()).toBe(2);
    clock.advanceTo(clock.now() + 1);
    await until(() => threads() === 1);
    expect(await book(host).versions).toEqual(['v2']);
  });

  it('is refused in the words of a plugin that fails in its thread alone, and leaves no thread behind', async () => {
    const { host, refused, threads, write } = await start({ 'p.ts': plugin('v1') });
    write(plugin('v2', `if (!isMainThread) throw new Error('I need the main thread');`));
    expect(await refused()).toBe(
      'marked of ./p.ts cannot run in a thread: cannot load ./p.ts: I need the main thread (thrown at p.ts:3)',
    );
    write(plugin('v3', '', `if (!isMainThread) throw new Error('not here');`));
    expect(await refused()).toBe('create of hint policy marked threw for role aggregated: not here');
    await until(() => threads() === 1);
    expect(await book(host).versions).toEqual(['v1']);
    expect(host.status()).toMatchObject({ generation: 1, other: null });
  });

  it('is refused where a thread cannot create the policy of a partition that appeared', async () => {
    const { host, refused, write } = await start({ 'p.ts': plugin('v1') });
    expect(await book(host, 'appeared').versions).toEqual(['v1']);
    write(
      plugin('v2', '', `if (partition.model === 'appeared' && !isMainThread) throw new Error('not here');`),
    );
    expect(await refused()).toBe('create of hint policy marked threw for role aggregated: not here');
    expect(await book(host, 'appeared').versions).toEqual(['v1']);
  });

  it('starts a thread for a plugin that shares a file with another one, whichever of them changed', async () => {
    const other = (text: string): string =>
      `import { defineHintPolicy } from 'pointsman/plugin';\nimport { shared } from './shared.ts';\nimport './own.ts';\n// ${text}\nexport default defineHintPolicy({ type: shared, create: () => ({ buildHints: () => [] }) });\n`;
    const { host, reload, write } = await start(
      {
        'shared.ts': `export const shared = 'other';\n`,
        'own.ts': 'export {};\n',
        'other.ts': other('one'),
        'p.ts': plugin('v1', `import { shared } from './shared.ts';\nvoid shared;`),
      },
      YAML.replace('./p.ts', './other.ts, ./p.ts'),
    );
    expect(await book(host).versions).toEqual(['v1']);
    write(other('two'), 'other.ts');
    expect(await reload()).toBe(true);
    expect(await book(host).versions).toEqual(['v1']);
  });
});
