import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { createJsonLog } from './json-log.ts';
import { readServeConfig, withSimulatedWorkers } from './serve-config.ts';

const folder = mkdtempSync(join(tmpdir(), 'pointsman-serve-config-'));
afterAll(() => rmSync(folder, { recursive: true }));

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const CONFIGURED = 'models: { m: { tokens: { source: estimate } } }\nlisten: { port: 9999 }\n';

test('nothing given means the embedded default: mode kv, four simulated workers, loopback', () => {
  const { config, simWorkers } = readServeConfig({}, {});
  expect(simWorkers).toBe(4);
  expect(config.router.mode).toBe('kv');
  expect([config.listen, config.admin]).toEqual([
    { host: '127.0.0.1', port: 8000 },
    { host: '127.0.0.1', port: 8001, token: null },
  ]);
});

test('a file brings its own workers, from the command line or the environment', () => {
  const path = file('router.yaml', CONFIGURED);
  for (const read of [
    readServeConfig({ config: path }, {}),
    readServeConfig({}, { POINTSMAN_CONFIG: path }),
  ]) {
    expect(read.simWorkers).toBe(0);
    expect([...read.config.models.keys()]).toEqual(['m']);
    expect(read.config.listen.port).toBe(9999);
  }
});

test('the command line wins over environment and file', () => {
  const path = file('mode.yaml', `${CONFIGURED}router: { mode: random }\n`);
  const { config } = readServeConfig(
    { config: path, port: 1234, adminPort: 0, routerMode: 'round-robin', routerDecodePolicy: 'random' },
    { DYN_ROUTER_DECODE_POLICY: 'least-loaded', POINTSMAN_LOG_LEVEL: 'warn' },
  );
  expect([config.listen.port, config.admin.port, config.router.mode]).toEqual([1234, 0, 'round-robin']);
  expect(config.workerSelection.decode?.policy).toEqual({ kind: 'name', name: 'random' });
  expect(config.observe.logLevel).toBe('warn');
});

test('a policy file alone takes simulated workers where they are asked for', () => {
  const policy = file('policy.yaml', 'worker_selection: { aggregated: random }\n');
  expect(readServeConfig({ routerPolicyConfig: policy, simWorkers: 2 }, {}).simWorkers).toBe(2);
  expect(readServeConfig({ config: policy, simWorkers: 2 }, {}).simWorkers).toBe(2);
  expect(readServeConfig({ config: policy }, {}).simWorkers).toBe(0);
});

test('a policy file stands beside a configuration, from the command line before the environment', () => {
  const path = file('beside.yaml', CONFIGURED);
  const one = file('one.yaml', 'worker_selection: { aggregated: random }\n');
  const two = file('two.yaml', 'worker_selection: { aggregated: least-loaded }\n');
  const env = { DYN_ROUTER_POLICY_CONFIG: two };
  const policy = (read: ReturnType<typeof readServeConfig>) => read.config.workerSelection.aggregated?.policy;
  const beside = readServeConfig({ config: path, routerPolicyConfig: one }, env);
  expect([policy(beside), beside.config.listen.port, beside.simWorkers]).toEqual([
    { kind: 'name', name: 'random' },
    9999,
    0,
  ]);
  expect(policy(readServeConfig({ config: path }, env))).toEqual({ kind: 'name', name: 'least-loaded' });
  expect(readServeConfig({}, env).simWorkers).toBe(0);
});

test('options that do not fit are refused in a sentence', () => {
  const path = file('both.yaml', CONFIGURED);
  expect(() => readServeConfig({ config: path, simWorkers: 1 }, {})).toThrow(
    '--sim-workers brings its own model and workers, but the configuration has some; leave one of the two out',
  );
});

test('simulated workers are numbered from 1 and serve the model as their engines know it', () => {
  const engine = (port: number) => ({
    url: `http://127.0.0.1:${port}`,
    kv_events: `tcp://127.0.0.1:${port + 1}`,
    kv_events_replay: port === 9000 ? `tcp://127.0.0.1:${port + 3}` : null,
    control: `tcp://127.0.0.1:${port + 2}`,
    model: 'tiny-sim',
    block_size: 32,
    hash_scheme: 'sim-xxh3/seed=0',
    epoch: 'e',
  });
  const { config } = readServeConfig({}, {});
  const filled = withSimulatedWorkers(config, [engine(9000), engine(9010)]);
  expect(filled.workers.map(({ id, url, kvEvents }) => [id, url, kvEvents['0']])).toEqual([
    [
      1n,
      'http://127.0.0.1:9000',
      { connect: 'tcp://127.0.0.1:9001', replay: 'tcp://127.0.0.1:9003', topic: '' },
    ],
    [2n, 'http://127.0.0.1:9010', { connect: 'tcp://127.0.0.1:9011', replay: null, topic: '' }],
  ]);
  expect(filled.models.get('tiny')).toMatchObject({ servedAs: 'tiny-sim', blockSize: 32 });
  expect(withSimulatedWorkers(config, [])).toBe(config);
});

test('log lines are JSON with exact ids, and those below the level are dropped', () => {
  const lines: string[] = [];
  const log = createJsonLog('warn', { write: (line) => lines.push(line) });
  log.info('not this');
  log.warn('this', { worker: 18446744073709551615n, rank: 1 });
  expect(lines.length).toBe(1);
  const entry: unknown = JSON.parse(lines[0] ?? '');
  expect(entry).toMatchObject({ level: 'warn', worker: '18446744073709551615', rank: 1, msg: 'this' });
});
