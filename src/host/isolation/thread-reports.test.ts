// Numbers and log lines of a plugin on their way out of its thread: gathered, capped, and the same as in process where they arrive.
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { IsolationBench, outcomes } from './isolation.fixtures.ts';
import { type FromThread, MOST_READINGS, parseFromThread } from './messages.ts';
import { ThreadReports } from './thread-reports.ts';

const bench = new IsolationBench();
afterEach(() => bench.disposeHosts());
afterAll(() => bench.close());

const FLOOD = 7;
const EXIT = 8;

bench.write(
  'meter.ts',
  `import { defineHintPolicy } from 'pointsman/plugin';
const define = (type: string, scope: 'partition' | 'shared') => defineHintPolicy({
  type,
  scope,
  create: ({ metrics: { count, gauge }, log }) => {
    gauge('open', 1);
    return {
      buildHints({ promptTokens }): any {
        if (promptTokens === ${EXIT}) process.exit(1);
        if (promptTokens === ${FLOOD}) {
          for (let at = 0; at < 100_000; at += 1) { count('flood', 1, 'l' + (at % 50)); gauge('g' + (at % 50), at); }
          for (let at = 0; at < 1000; at += 1) log.info('line');
          return [];
        }
        count('runs');
        count('tokens', promptTokens, 'a');
        count('Bad name');
        count('runs', -1);
        gauge('last', promptTokens);
        gauge('last', Number.NaN);
        count('runs', 1, 'x'.repeat(65));
        count('other', 2, 'y');
        return [];
      },
      dispose: () => count('disposals'),
    };
  },
});
export const meter = define('meter', 'partition');
export const shared = define('shared', 'shared');
`,
);

const yaml = (isolation: string) =>
  `plugins: [./meter.ts]
worker_selection:
  aggregated: { hints: [{ type: meter, name: m, isolation: ${isolation}, deadline: 30s }, { type: shared, isolation: ${isolation}, deadline: 30s }] }`;

async function series(metrics: { text(): Promise<string> }): Promise<string[]> {
  const lines = (await metrics.text()).split('\n');
  return lines
    .filter((line) => /^pointsman_plugin_(counts_total|gauge|output)/.test(line))
    .map((line) => line.replace('pointsman_plugin_', ''))
    .sort();
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 5));
}

describe('numbers of a policy in a thread', () => {
  it('are the same as in process, with the same complaints, and gauges end with it', async () => {
    const seen: { series: string[]; rules: unknown[]; left: string[] }[] = [];
    for (const isolation of ['in-process', 'thread']) {
      const { host, run, metrics, logged } = await bench.host(yaml(isolation));
      const before = await series(metrics);
      await run({ promptTokens: 40 });
      await run({ promptTokens: 20 });
      // Of either, the last that it tells of a call.
      const last = ['m', 'shared'].map(
        (plugin) => `counts_total{plugin="${plugin}",name="other",label=""} 6`,
      );
      await until(async () => {
        const lines = await series(metrics);
        return last.every((line) => lines.includes(line));
      });
      const during = await series(metrics);
      const rules = logged
        .filter(({ fields }) => fields?.rule !== undefined)
        .map(({ fields }) => `${fields?.plugin}: ${fields?.rule}`);
      await host.dispose();
      const left = await series(metrics);
      // Trials of a start in process count where they dispose; those in a thread are over before anybody listens.
      const withoutTrials = (lines: readonly string[]) => lines.filter((line) => !line.includes('disposals'));
      seen.push({ series: withoutTrials(during), rules: rules.sort(), left: withoutTrials(left) });
      expect(withoutTrials(before).filter((line) => line.startsWith('counts'))).toEqual([]);
      expect(left.some((line) => line.startsWith('counts_total{plugin="m",name="disposals"'))).toBe(true);
      expect(left.filter((line) => line.startsWith('gauge'))).toEqual([]);
    }
    expect(seen[1]).toEqual(seen[0]);
    expect(seen[0]?.series).toContain('counts_total{plugin="m",name="tokens",label="a"} 60');
    expect(seen[0]?.series).toContain('gauge{plugin="m",name="last",label=""} 20');
    expect(seen[0]?.rules.length).toBeGreaterThanOrEqual(8);
  });

  it('are gathered however fast they come, and what is dropped of the log is counted', async () => {
    const { run, metrics, logged } = await bench.host(yaml('thread'));
    expect(outcomes(await run({ promptTokens: FLOOD }))).toEqual(['m nothing', 'shared nothing']);
    const last = ['m', 'shared'].flatMap((plugin) => [
      `counts_total{plugin="${plugin}",name="flood",label="other"} 36000`,
      `output_dropped_total{plugin="${plugin}",what="log"}`,
    ]);
    await until(async () => {
      const all = (await series(metrics)).join('\n');
      return last.every((line) => all.includes(line));
    });
    const lines = await series(metrics);
    // 32 names, each label once; the surplus in one.
    expect(lines.filter((line) => line.startsWith('gauge{plugin="m",name="g')).length).toBe(30);
    const passed = logged.filter(({ message }) => message === 'line').length;
    const dropped = lines
      .filter((line) => line.startsWith('output_dropped_total'))
      .map((line) => Number(line.split(' ')[1]));
    expect(passed + dropped.reduce((sum, one) => sum + one, 0)).toBe(2000);
  });

  it('end with its thread, but for what was counted', async () => {
    const { run, metrics, untilReady } = await bench.host(yaml('thread'));
    await run({ promptTokens: 40 });
    await until(async () => (await series(metrics)).includes('gauge{plugin="m",name="last",label=""} 40'));
    await run({ promptTokens: EXIT });
    expect((await series(metrics)).filter((line) => line.startsWith('gauge'))).toEqual([]);
    await untilReady();
    await until(async () => (await series(metrics)).includes('gauge{plugin="m",name="open",label=""} 1'));
    // Asking whether it is ready has counted as well.
    expect((await series(metrics)).join()).toMatch(/name="tokens",label="a"} [1-9]/);
  });
});

describe('reports', () => {
  const reporting = () => {
    const sent: FromThread[] = [];
    const timers: (() => void)[] = [];
    const at = { ms: 0 };
    const reports = new ThreadReports({
      send: (message) => sent.push(message),
      now: () => at.ms,
      after: (_, callback) => timers.push(callback),
    });
    return { sent, timers, at, reports };
  };

  it('have one timer under way, and take several messages for what does not go into one', () => {
    const { sent, timers, reports } = reporting();
    for (let site = 0; site < 5; site += 1) {
      const metrics = reports.metricsOf(site);
      for (let at = 0; at < 2000; at += 1) metrics.count(`n${at % 40}`, 1, `l${at % 37}`);
    }
    expect([timers.length, sent.length]).toEqual([1, 0]);
    while (timers.length > 0) timers.shift()?.();
    const numbers = sent.filter((message) => message.kind === 'numbers');
    expect(numbers.length).toBeGreaterThan(1);
    for (const message of numbers) {
      expect(message.readings.length).toBeLessThanOrEqual(MOST_READINGS);
      expect(parseFromThread(message)).toEqual(message);
    }
    const total = numbers
      .flatMap(({ readings }) => readings)
      .reduce((sum, [, , , , value]) => sum + value, 0);
    expect(total).toBe(10_000);
  });

  it('pass 100 lines a second on, and say how many they kept', () => {
    const { sent, timers, at, reports } = reporting();
    for (let line = 0; line < 250; line += 1) reports.log.info('line');
    at.ms = 1000;
    reports.log.info('line');
    timers.shift()?.();
    expect(sent.filter(({ kind }) => kind === 'log')).toHaveLength(101);
    expect(sent.at(-1)).toEqual({ kind: 'lines_dropped', lines: 150 });
  });

  it('send what a policy told last when it goes', () => {
    const { sent, timers, reports } = reporting();
    reports.metricsOf(3).gauge('last', Number.MAX_VALUE);
    const metrics = reports.metricsOf(4);
    metrics.count('huge', Number.MAX_VALUE);
    metrics.count('huge', Number.MAX_VALUE);
    reports.forget(4);
    expect(sent).toEqual([
      {
        kind: 'numbers',
        readings: [
          [3, 'gauge', 'last', '', Number.MAX_VALUE],
          [4, 'count', 'huge', '', Number.MAX_VALUE],
        ],
        complaints: [],
      },
    ]);
    timers.shift()?.();
    expect(sent).toHaveLength(1);
  });
});
