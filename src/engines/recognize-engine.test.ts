import { describe, expect, it } from 'vitest';
import { workerFixture } from '../../tests/gateway-fixtures.ts';
import { parseCapabilities } from '../fleet/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import type { EngineDialect } from './dialect.ts';
import { type AskEngine, NOTHING_SAID } from './engine-description.ts';
import { recognizeEngine } from './recognize-engine.ts';
import { SIM_DIALECT } from './sim/index.ts';

/** A dialect whose engines name themselves at a path. */
function dialect(name: string, path: string): EngineDialect {
  return {
    ...SIM_DIALECT,
    name,
    speaks: (scheme) => scheme.startsWith(`${name}/`),
    async describe(ask) {
      const { status, text } = await ask({ method: 'GET', path });
      return status === 200 && text.startsWith(name) ? { ...NOTHING_SAID, version: text } : null;
    },
  };
}

const DIALECTS = new Map(
  [SIM_DIALECT, dialect('one', '/version'), dialect('two', '/version'), dialect('three', '/props')].map(
    (d) => [d.name, d],
  ),
);

function engine(answers: Readonly<Record<string, string>>) {
  const asked: string[] = [];
  const ask: AskEngine = ({ method, path }) => {
    asked.push(`${method} ${path}`);
    const text = answers[path];
    return Promise.resolve({ status: text === undefined ? 404 : 200, text: text ?? '' });
  };
  return { ask, asked };
}

const advertising = (scheme: string) =>
  parseCapabilities({
    protocol_versions: ['0.1'],
    epoch: 'e',
    model: 'm',
    worker_type: 'aggregated',
    block_size: 16,
    hash_scheme: scheme,
    reports_outcomes: false,
    ranks: {},
  });

describe('what an engine is', () => {
  it('is asked of each dialect in order for auto, no question twice', async () => {
    const { ask, asked } = engine({ '/version': 'two 1.0' });
    const found = await recognizeEngine(workerFixture({ dialect: 'auto' }), ask, DIALECTS);
    expect(found).toEqual({ dialect: 'two', description: { ...NOTHING_SAID, version: 'two 1.0' } });
    expect(asked).toEqual(['GET /version']);
  });

  it('is null for auto when nobody knows it, after everybody was asked', async () => {
    const { ask, asked } = engine({ '/version': 'four' });
    expect(await recognizeEngine(workerFixture({ dialect: 'auto' }), ask, DIALECTS)).toBeNull();
    expect(asked).toEqual(['GET /version', 'GET /props']);
  });

  it('asks only the dialect that an advertisement or the configuration names', async () => {
    const { ask, asked } = engine({ '/version': 'one', '/props': 'three' });
    const worker = { ...workerFixture({ dialect: 'auto' }), capabilities: advertising('three/x') };
    expect(await recognizeEngine(worker, ask, DIALECTS)).toMatchObject({ dialect: 'three' });
    expect(await recognizeEngine(workerFixture({ dialect: 'two' }), ask, DIALECTS)).toBeNull();
    expect(asked).toEqual(['GET /props', 'GET /version']);
  });

  it('is not learned where the dialect asks nothing', async () => {
    const { ask, asked } = engine({});
    const worker = { ...workerFixture({ dialect: 'auto' }), capabilities: advertising('sim-xxh3/seed=1') };
    expect(await recognizeEngine(worker, ask, DIALECTS)).toBeUndefined();
    expect(await recognizeEngine(workerFixture({ dialect: 'sim' }), ask, DIALECTS)).toBeUndefined();
    expect(asked).toEqual([]);
  });

  it('fails when the engine stops answering', async () => {
    const ask: AskEngine = () => Promise.reject(new PointsmanError('PM_ENGINE_UNREACHABLE', 'no'));
    await expect(recognizeEngine(workerFixture({ dialect: 'auto' }), ask, DIALECTS)).rejects.toThrow('no');
  });

  it('keeps nothing that is longer than names are, whichever dialect it speaks', async () => {
    const long = 'x'.repeat(100_000);
    const endless = Array.from({ length: 10_000 }, (_, at) => `m${at}`);
    const boasting: EngineDialect = {
      ...SIM_DIALECT,
      name: 'boasting',
      describe: () =>
        Promise.resolve({
          ...NOTHING_SAID,
          ...{ version: long, models: [long, ...endless], blockSize: 16, chatTemplate: long.repeat(10) },
          kvEvents: new Map([[0, { address: 'tcp://*:1', binds: false, replay: null, topic: long }]]),
        }),
    };
    const worker = workerFixture({ dialect: 'boasting' });
    const found = await recognizeEngine(worker, engine({}).ask, new Map([['boasting', boasting]]));
    expect(found?.description).toEqual({ ...NOTHING_SAID, blockSize: 16, models: endless.slice(0, 4096) });
  });
});
