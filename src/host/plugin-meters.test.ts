// Numbers of plugins on their way to /metrics: through a configured host, under caps, gone with their policy.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseConfig } from '../config/index.ts';
import { createMetrics } from '../observe/index.ts';
import { type LogFields, ManualClock, NO_LOG } from '../plugin/index.ts';
import { createPluginHost, type HintBooking } from './index.ts';
import { MAX_LABELS, MAX_NAMES } from './meter-input.ts';
import { openMeter } from './plugin-meters.ts';

const PLUGIN = `import { defineHintPolicy, defineRequestClassifier } from 'pointsman/plugin';
export const classifier = defineRequestClassifier({ type: 'classifier', create({ metrics: { count, gauge } }) {
  gauge('open', 1);
  return { classify: ({ inputTokens }) => void count('tokens_seen', inputTokens), dispose: () => count('disposals') };
} });
const define = (type, scope) => defineHintPolicy({ type, scope, create({ metrics: { count, gauge } }) {
  gauge('open', 1);
  return {
    buildHints({ promptTokens, role }) {
      count('runs');
      count('tokens_seen', promptTokens, role);
      gauge('last_tokens', promptTokens);
      return [];
    },
    dispose: () => count('disposals'),
  };
} });
export const meter = define('meter', 'partition');
export const shared = define('shared', 'shared');
`;

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'meters-'));
  writeFileSync(join(folder, 'meter.mjs'), PLUGIN);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const rank = { routerHint: true, actions: null, sourceControlEndpoint: null };
const fleet = {
  slotRank: () => 0,
  workerOfSlot: () => ({
    spec: { id: 7n },
    state: 'ready' as const,
    capabilities: {
      epoch: 'e',
      model: 'tiny',
      workerType: 'aggregated',
      blockSize: 16,
      hashScheme: 's',
      reportsOutcomes: false,
      ranks: new Map([[0, rank]]),
    },
  }),
};

/** Series of plugins on a scrape, without the prefix. */
async function scraped(metrics: ReturnType<typeof createMetrics>): Promise<string[]> {
  const text = await metrics.text();
  return text
    .split('\n')
    .filter((line) => /^pointsman_plugin_(counts_total|gauge)\{/.test(line))
    .map((line) => line.replace('pointsman_plugin_', ''))
    .sort();
}

it('of several partitions add up; gauges end with their policies, counts stay', async () => {
  const metrics = createMetrics();
  const { config, source } = parseConfig(
    `plugins: [./meter.mjs]
worker_selection: { decode: { type: round-robin, hints: [{ type: meter, name: mine }, { type: shared }] } }`,
    join(folder, 'router.yaml'),
  );
  const host = await createPluginHost({
    config,
    source,
    clock: new ManualClock(),
    log: NO_LOG,
    metrics,
    fleet,
  });
  // The trial at startup is disposed, and with it its gauge; the shared policy is there already.
  expect(await scraped(metrics)).toEqual([
    'counts_total{plugin="mine",name="disposals",label=""} 1',
    'gauge{plugin="shared",name="open",label=""} 1',
  ]);
  for (const [model, promptTokens] of [
    ['a', 100],
    ['b', 20],
  ] as const) {
    const partition = { model, routingGroup: 'default' };
    const booking: HintBooking = {
      requestId: 'r',
      slot: 0,
      workerId: 7n,
      rank: 0,
      role: 'decode',
      partition,
      promptTokens,
      blockSize: 16,
      session: null,
      hashes: null,
      match: null,
      index: null,
      incomingHint: null,
    };
    host.roleRuntime(partition, 'decode', 16).hintStage?.run(booking);
  }
  expect(await scraped(metrics)).toEqual([
    'counts_total{plugin="mine",name="disposals",label=""} 1',
    'counts_total{plugin="mine",name="runs",label=""} 2',
    'counts_total{plugin="mine",name="tokens_seen",label="decode"} 120',
    'counts_total{plugin="shared",name="runs",label=""} 2',
    'counts_total{plugin="shared",name="tokens_seen",label="decode"} 120',
    'gauge{plugin="mine",name="last_tokens",label=""} 120',
    'gauge{plugin="mine",name="open",label=""} 2',
    'gauge{plugin="shared",name="last_tokens",label=""} 20',
    'gauge{plugin="shared",name="open",label=""} 1',
  ]);
  await host.dispose();
  expect((await scraped(metrics)).filter((line) => line.startsWith('gauge'))).toEqual([]);
  expect(await scraped(metrics)).toContain('counts_total{plugin="mine",name="disposals",label=""} 3');
  expect(await scraped(metrics)).toContain('counts_total{plugin="shared",name="disposals",label=""} 1');
});

it('of a request classifier are shown as well, until it is disposed', async () => {
  const metrics = createMetrics();
  const { config, source } = parseConfig(
    'plugins: [./meter.mjs]\nmodels: { a: {}, b: {} }\nrequest_classifier: classifier',
    join(folder, 'router.yaml'),
  );
  const host = await createPluginHost({ config, source, clock: new ManualClock(), log: NO_LOG, metrics });
  for (const model of ['a', 'b']) {
    host
      .classifierFor({ model, routingGroup: 'default' })
      ?.begin({
        requestId: 'r',
        session: null,
        promptTokens: 50,
        policyClass: null,
        arrivedAt: 0,
        pinnedWorker: null,
      })
      .classify(() => undefined);
  }
  expect(await scraped(metrics)).toEqual([
    'counts_total{plugin="classifier",name="tokens_seen",label=""} 100',
    'gauge{plugin="classifier",name="open",label=""} 2',
  ]);
  await host.dispose();
  expect(await scraped(metrics)).toEqual([
    'counts_total{plugin="classifier",name="disposals",label=""} 2',
    'counts_total{plugin="classifier",name="tokens_seen",label=""} 100',
  ]);
});

describe('what is out of bounds', () => {
  function meter() {
    const metrics = createMetrics();
    const rules: unknown[] = [];
    const log = { ...NO_LOG, warn: (_: string, fields?: LogFields) => void rules.push(fields?.rule) };
    return { ...openMeter('mine', metrics, log).metrics, series: () => scraped(metrics), rules };
  }

  it('in names goes under other, and is said once', async () => {
    const { count, series, rules } = meter();
    for (const name of ['Big', 'with space', '', 'a'.repeat(65), 3 as never]) count(name, 1, 'label');
    expect(await series()).toEqual(['counts_total{plugin="mine",name="other",label=""} 5']);
    expect(rules).toEqual(['a name must be a lower-case word of letters, digits and "_"']);
  });

  it('in numbers of names and labels goes under other, counts and gauges together', async () => {
    const { count, gauge, series, rules } = meter();
    for (let at = 0; at < MAX_LABELS + 5; at += 1) count('labelled', 1, `label ${at}`);
    for (let at = 0; at < MAX_NAMES + 5; at += 1) gauge(`name_${at}`, 1);
    count('labelled', 1, 'label 0');
    const all = await series();
    expect(all).toHaveLength(MAX_LABELS + 1 + MAX_NAMES);
    expect(all).toContain('counts_total{plugin="mine",name="labelled",label="other"} 5');
    expect(all).toContain('counts_total{plugin="mine",name="labelled",label="label 0"} 2');
    expect(all).toContain('gauge{plugin="mine",name="other",label=""} 1');
    expect(rules).toEqual([`at most ${MAX_LABELS} labels for a name`, `at most ${MAX_NAMES} names`]);
  });

  it('in labels goes under other, and in values is left out', async () => {
    const { count, gauge, series, rules } = meter();
    count('a', 1, 'x'.repeat(65));
    count('a', 1, {} as never);
    for (const by of [-1, Number.NaN, Number.POSITIVE_INFINITY, '3' as never, 3n as never]) count('a', by);
    for (const value of [Number.NaN, Number.NEGATIVE_INFINITY, 'x' as never]) gauge('a', value);
    expect(await series()).toEqual(['counts_total{plugin="mine",name="a",label="other"} 2']);
    expect(rules).toHaveLength(3);
  });
});
