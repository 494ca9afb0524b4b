// Hint policies in threads of their own, through a configured host: where they run, what they are shown, what a hostile one costs.
import { existsSync } from 'node:fs';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { IsolationBench, outcomes } from './isolation.fixtures.ts';

const bench = new IsolationBench();
afterEach(() => bench.disposeHosts());
afterAll(() => bench.close());

const LOOP = 1;
const EXIT = 2;
const THROW = 3;
const LOG = 4;

bench.write(
  'told.ts',
  `import { isMainThread, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { defineHintPolicy, defineWorkerSelectionPolicy, pickWorker, PointsmanError } from 'pointsman/plugin';
import { z } from 'zod';
const mark = (payload: object) => [{ type: 'acme.mark', version: '1.0', payload }];
const cyclic: Record<string, unknown> = {};
cyclic.self = cyclic;
const odd: readonly (() => unknown)[] = [
  () => new Array(2 ** 32 - 1),
  () => Array(100_000).fill(mark({})[0]),
  () => mark({ hashes: new BigUint64Array(200_000) }),
  () => mark(cyclic),
  () => mark({ get x() { throw new Error('no'); } }),
  () => new Proxy([], { get() { throw new Error('no'); } }),
  () => Promise.resolve(mark({})),
  () => Promise.reject(new Error('later')),
  () => mark({ f: () => 1 }),
  () => mark({ at: new Date() }),
  () => undefined,
  () => Symbol('x'),
  () => { throw { toString() { throw new Error('no text'); } }; },
];
export const told = defineHintPolicy({
  type: 'told',
  isolation: 'thread',
  parameters: z.strictObject({ greeting: z.string().default('hello'), id: z.bigint().optional() }),
  create: ({ log, partition, parameters }) => {
    let calls = 0;
    return {
      buildHints({ promptTokens }): any {
        calls += 1;
        if (promptTokens === ${LOOP}) for (;;);
        if (promptTokens === ${EXIT}) process.exit(3);
        if (promptTokens === ${THROW}) throw new Error('as told');
        if (promptTokens === ${LOG}) {
          for (let line = 0; line < 1000; line += 1) log.info('x'.repeat(5000), { line, model: partition.model });
          return [];
        }
        if (promptTokens >= 1000) return odd[promptTokens - 1000]?.();
        return mark({ main: isMainThread, calls, ...parameters });
      },
    };
  },
});
export const forger = defineHintPolicy({
  type: 'forger',
  isolation: 'thread',
  create: () => {
    let id = 0;
    return {
      buildHints() {
        for (; id < 200; id += 1) {
          for (const port of [parentPort, ...Object.values(workerData ?? {})]) {
            port?.postMessage?.({ kind: 'output', call: id, output: mark({ forged: id }) });
          }
        }
        const left = Object.keys(workerData ?? {}).filter((key) => key === 'port');
        return mark({ left: left.length });
      },
    };
  },
});
export const good = defineHintPolicy({
  type: 'good',
  create: ({ rng }) => ({ buildHints: () => mark({ draw: rng.next() }) }),
});
`,
);
const hints = (...list: string[]) =>
  `plugins: [./told.ts]\nworker_selection: { aggregated: { hints: [${list.join(', ')}] } }`;
const payloads = async (run: Promise<{ hint: { actions: readonly { payload: object }[] } | null }>) =>
  (await run).hint?.actions.map(({ payload }) => payload);

describe('a policy in a thread', () => {
  it('answers in list order with the others, its parameters as they stand in YAML', async () => {
    const { start } = await bench.host(
      hints(
        '{ type: told, parameters: { id: 18446744073709551615 } }',
        '{ type: good }',
        '{ type: told, name: again }',
      ),
    );
    const { started, result } = start();
    expect('pending' in started).toBe(true);
    expect(await payloads(result)).toEqual([
      { main: false, calls: 1, greeting: 'hello', id: 18446744073709551615n },
      { draw: expect.any(Number) },
      { main: false, calls: 1, greeting: 'hello' },
    ]);
    const { hint, actionPolicies } = await result;
    expect(hint?.actions.map(({ action_id }) => action_id)).toEqual(['a1', 'a2', 'a3']);
    expect(actionPolicies).toEqual(['told', 'good', 'again']);
  });

  it('is one per configured entry, whatever the number of calls under way', async () => {
    const { start } = await bench.host(hints('{ type: told }'));
    const results = await Promise.all(Array.from({ length: 20 }, () => payloads(start().result)));
    expect(results.flat()).toEqual(
      Array.from({ length: 20 }, (_, index) => ({ main: false, calls: index + 1, greeting: 'hello' })),
    );
  });

  it('runs in process where the configuration says so, or nothing may depend on threads', async () => {
    const here = await bench.host(hints('{ type: told, isolation: in-process }'));
    expect('pending' in here.start().started).toBe(false);
    const virtual = await bench.host(hints('{ type: told }'), { threads: false });
    expect(await payloads(virtual.run())).toEqual([{ main: true, calls: 1, greeting: 'hello' }]);
    expect(virtual.logged).toContainEqual({
      level: 'info',
      message: 'isolated plugins run in process here: threads have no part in virtual time',
      fields: { plugins: 'told' },
    });
  });

  it('makes the role wait, and one it does not belong to not', async () => {
    const { host } = await bench.host(hints('{ type: told }'));
    const partition = { model: 'tiny', routingGroup: 'default' };
    expect(host.roleRuntime(partition, 'aggregated', 16).hintStage).toBeNull();
    const decode = host.roleRuntime(partition, 'decode', 16);
    expect([decode.threadedHints, decode.hintStage === null]).toEqual([null, false]);
  });

  it('has its log lines passed on, cut and counted', async () => {
    const { run, logged, metrics } = await bench.host(hints('{ type: told }'));
    expect(outcomes(await run({ promptTokens: LOG }))).toEqual(['told nothing']);
    const lines = logged.filter(({ level }) => level === 'info');
    expect(lines[0]).toEqual({
      level: 'info',
      message: 'x'.repeat(2000),
      fields: { line: 0, model: 'tiny' },
    });
    // How many seconds the loop straddles is the machine's affair; what is not passed on is counted.
    const dropped = /pointsman_plugin_output_dropped_total\{plugin="told",what="log"\} (\d+)/;
    let counted = 0;
    while (lines.length + counted < 1000) {
      counted = Number(dropped.exec(await metrics.text())?.[1] ?? 0);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(lines.length + counted).toBe(1000);
    expect(counted).toBeGreaterThan(0);
  });
});

const NEVER_TRIPS = 'containment: { breaker: { failures: 10000, overruns: 10000 } }';

describe('a hostile policy in a thread', () => {
  const draws = (results: readonly { hint: { actions: readonly { payload: object }[] } | null }[]) =>
    results.map(({ hint }) => hint?.actions.find(({ payload }) => 'draw' in payload)?.payload);

  it('costs nothing but its own actions, whatever it returns or throws', async () => {
    const { run } = await bench.host(`${hints('{ type: told }', '{ type: good }')}\n${NEVER_TRIPS}`);
    const alone = await bench.host(hints('{ type: good }'));
    const beside: Awaited<ReturnType<typeof run>>[] = [];
    const expected: typeof beside = [];
    for (let what = 0; what < 13; what += 1) {
      beside.push(await run({ promptTokens: 1000 + what }));
      expected.push(await alone.run());
    }
    expect(draws(beside)).toEqual(draws(expected));
    expect(beside.map(({ policies }) => policies[0]?.reason)).toEqual([
      'no_room',
      'no_room',
      ...Array(4).fill('malformed'),
      'promise',
      'promise',
      ...Array(4).fill('malformed'),
      'threw',
    ]);
    expect(outcomes(await run())).toEqual(['told sent', 'good sent']);
  });

  it('that never returns is given up at its deadline, and its thread is replaced', async () => {
    const { start, clock, metrics, logged, untilReady } = await bench.host(
      hints('{ type: told, deadline: 20ms }', '{ type: good }'),
    );
    const loop = start({ promptTokens: LOOP });
    const behind = start();
    clock.advanceTo(clock.now() + 19);
    expect(await metrics.text()).not.toContain('pointsman_plugin_threads_lost_total{');
    clock.advanceTo(clock.now() + 1);
    expect(outcomes(await loop.result)).toEqual(['told dropped timed_out', 'good sent']);
    expect(outcomes(await behind.result)).toEqual(['told skipped restarting', 'good sent']);
    const meanwhile = start().started;
    if ('pending' in meanwhile) throw new Error('it waited for a thread that is not there');
    expect(outcomes(meanwhile)).toEqual(['told skipped restarting', 'good sent']);
    expect(await metrics.text()).toContain(
      'pointsman_plugin_threads_lost_total{plugin="told",reason="timed_out"} 1',
    );
    await untilReady();
    expect(outcomes(await start().result)).toEqual(['told sent', 'good sent']);
    expect(logged.filter(({ message }) => message === 'the thread of a plugin is replaced')).toEqual([
      {
        level: 'warn',
        message: 'the thread of a plugin is replaced',
        fields: { policy: 'told', why: 'its deadline passed', pause_ms: 0 },
      },
    ]);
  });

  it('that ends its process ends its thread, which is replaced', async () => {
    const { start, logged, untilReady } = await bench.host(hints('{ type: told }', '{ type: good }'));
    const dies = start({ promptTokens: EXIT });
    const behind = start();
    expect(outcomes(await dies.result)).toEqual(['told dropped thread_died', 'good sent']);
    expect(outcomes(await behind.result)).toEqual(['told skipped restarting', 'good sent']);
    await untilReady();
    expect(logged.map(({ fields }) => fields?.why).filter(Boolean)).toEqual(['it ended itself with code 3']);
  });

  it('that keeps doing it trips its breaker', async () => {
    const { run, host, untilReady } = await bench.host(hints('{ type: told }'));
    for (let times = 0; times < 5; times += 1) {
      expect(outcomes(await run({ promptTokens: EXIT }))).toEqual(['told dropped thread_died']);
      await untilReady();
    }
    expect(outcomes(await run())).toEqual(['told skipped tripped']);
    expect(host.containment()).toMatchObject([{ plugin: 'told', state: 'tripped', failures: 5, trips: 1 }]);
  });

  it('whose answer came in time is heard, however late the router looks', async () => {
    const answered = bench.path('answered');
    bench.write(
      'tells-when.ts',
      `import { writeFileSync } from 'node:fs';
import { defineHintPolicy } from 'pointsman/plugin';
export default defineHintPolicy({
  type: 'tells-when',
  isolation: 'thread',
  create: () => ({
    buildHints() {
      setImmediate(() => writeFileSync(${JSON.stringify(answered)}, ''));
      return [{ type: 'acme.mark', version: '1.0', payload: {} }];
    },
  }),
});`,
    );
    const yaml =
      'plugins: [./tells-when.ts]\nworker_selection: { aggregated: { hints: [{ type: tells-when }] } }';
    const { start, clock } = await bench.host(yaml);
    const { result } = start();
    // The router is busy and hears nothing until the answer has long been sent.
    while (!existsSync(answered));
    clock.advanceTo(clock.now() + 1000);
    expect(outcomes(await result)).toEqual(['tells-when sent']);
  });

  it('whose file has changed is not started again with another text', async () => {
    const text = (what: string) => `import { defineHintPolicy } from 'pointsman/plugin';
export default defineHintPolicy({
  type: 'changing',
  isolation: 'thread',
  create: () => ({
    buildHints({ promptTokens }) {
      if (promptTokens === ${EXIT}) process.exit(0);
      return [{ type: 'acme.mark', version: '1.0', payload: { what: '${what}' } }];
    },
  }),
});`;
    bench.write('changing.ts', text('old'));
    const yaml =
      'plugins: [./changing.ts]\nworker_selection: { aggregated: { hints: [{ type: changing }] } }';
    const { run, logged, clock, untilReady } = await bench.host(yaml);
    bench.write('changing.ts', text('new'));
    expect(outcomes(await run({ promptTokens: EXIT }))).toEqual(['changing dropped thread_died']);
    const reasons = () => logged.map(({ fields }) => fields?.why).filter(Boolean);
    while (reasons().length < 3) {
      expect(outcomes(await run())).toEqual(['changing skipped restarting']);
      await new Promise((resolve) => setTimeout(resolve, 5));
      clock.advanceTo(clock.now() + 1);
    }
    const changed = 'its files are not those that the router loaded; a reload takes them';
    expect(reasons()).toEqual(['it ended itself with code 0', changed, changed]);
    bench.write('changing.ts', text('old'));
    await untilReady();
    expect(await payloads(run())).toEqual([{ what: 'old' }]);
  });

  it('finds no way to answer for another call', async () => {
    const { start } = await bench.host(hints('{ type: forger }'));
    const results = await Promise.all([payloads(start().result), payloads(start().result)]);
    expect(results).toEqual([[{ left: 0 }], [{ left: 0 }]]);
  });
});

describe('a start', () => {
  it.each([
    [
      'that throws where it is loaded',
      `import { isMainThread } from 'node:worker_threads';
if (!isMainThread) throw new Error('not in a thread');`,
      'bad of ./bad.ts cannot run in a thread: cannot load ./bad.ts: not in a thread (thrown at bad.ts:3)',
    ],
    [
      'that ends its process there',
      `import { isMainThread } from 'node:worker_threads';
if (!isMainThread) process.exit(4);`,
      'bad of ./bad.ts cannot run in a thread: it ended itself with code 4',
    ],
    [
      'that registers something else there',
      `import { isMainThread } from 'node:worker_threads';
const registers = isMainThread ? 'bad' : 'other';`,
      'bad of ./bad.ts cannot run in a thread: ./bad.ts offers no hint policy bad in a thread of its own',
    ],
  ])('refuses a policy %s, in its own words', async (_, top, message) => {
    bench.write(
      'bad.ts',
      `import type { PluginRegistry } from 'pointsman/plugin';
${top}
export function register(registry: PluginRegistry) {
  const name = ${top.includes('registers') ? 'registers' : "'bad'"};
  registry.registerHintPolicy(name, () => ({ create: () => ({ buildHints: () => [] }) }));
}
`,
    );
    const yaml = `plugins: [./bad.ts]
worker_selection:
  aggregated: { hints: [{ type: bad, isolation: thread }] }`;
    expect(await bench.problems(yaml)).toEqual([
      `router.yaml:3:25: worker_selection.aggregated.hints[0]: ${message}`,
    ]);
  });

  it('refuses what create throws in the thread, and the deadline of one in process is of no use', async () => {
    bench.write(
      'picky.ts',
      `import { isMainThread } from 'node:worker_threads';
import { defineHintPolicy } from 'pointsman/plugin';
export default defineHintPolicy({
  type: 'picky',
  create: ({ role }) => {
    if (!isMainThread) throw new Error(role + ' is beneath me');
    return { buildHints: () => [] };
  },
});`,
    );
    const yaml = `plugins: [./picky.ts]
worker_selection:
  aggregated: { hints: [{ type: picky, isolation: thread }] }
  decode: { hints: [{ type: kv_fetch, isolation: thread }] }`;
    expect(await bench.problems(yaml)).toEqual([
      'router.yaml:4:50: worker_selection.decode.hints[0].isolation: kv_fetch is built in and runs in process; remove isolation, which is for plugins',
      'router.yaml:3:25: worker_selection.aggregated.hints[0]: create of hint policy picky threw for role aggregated: aggregated is beneath me',
    ]);
    const { host } = await bench.host(
      'plugins: [./picky.ts]\nworker_selection: { aggregated: { hints: [{ type: picky, deadline: 5ms }] } }',
    );
    expect(host.warnings.map(({ message }) => message)).toEqual([
      'picky runs in process, where nothing is waited for: deadline has no effect; add isolation: thread, or remove it',
    ]);
  });
});

describe('the end', () => {
  it('disposes what was created in the thread, and the thread ends with its last policy', async () => {
    bench.write(
      'kept.ts',
      `import { defineHintPolicy } from 'pointsman/plugin';
setInterval(() => undefined, 1000);
export default defineHintPolicy({
  type: 'kept',
  isolation: 'thread',
  create: ({ log, partition }) => ({
    buildHints: () => [{ type: 'acme.mark', version: '1.0', payload: {} }],
    dispose: () => log.info('disposed', { model: partition.model }),
  }),
});`,
    );
    const yaml = 'plugins: [./kept.ts]\nworker_selection: { aggregated: { hints: [{ type: kept }] } }';
    const { host, run, logged } = await bench.host(yaml);
    host.roleRuntime({ model: 'other', routingGroup: 'default' }, 'decode', 16);
    host.roleRuntime({ model: 'other', routingGroup: 'default' }, 'aggregated', 16);
    expect(outcomes(await run())).toEqual(['kept sent']);
    logged.splice(0);
    await host.dispose();
    const disposed = logged.map(({ message, fields }) => `${message} ${fields?.model}`);
    expect(disposed.sort()).toEqual(['disposed other', 'disposed tiny']);
    await bench.untilNoThread();
    expect(outcomes(await run())).toEqual(['kept skipped restarting']);
  });
});
