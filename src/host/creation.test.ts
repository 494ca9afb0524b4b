// What is created from a configuration, with what, how often, and what becomes of partitions for which it fails.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parseConfig } from '../config/index.ts';
import { type AnyCreateContext, type LogFields, ManualClock, NO_LOG } from '../plugin/index.ts';
import { builtinCatalog } from './builtin-policies.ts';
import { createPluginHost } from './index.ts';

const SEEN = Symbol.for('pointsman-test-creation');
/** What the policy below has to say: contexts it was created with, and how often its schema was asked. */
const seen: { contexts: AnyCreateContext[]; parsed: number } = { contexts: [], parsed: 0 };

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'creation-'));
  writeFileSync(
    join(folder, 'seen.ts'),
    `import { defineWorkerSelectionPolicy, pickWorker } from 'pointsman/plugin';
const seen = globalThis[Symbol.for('pointsman-test-creation')];
export default defineWorkerSelectionPolicy({
  type: 'seen',
  parameters: { '~standard': { version: 1, vendor: 'test', validate(value) { seen.parsed += 1; return { value }; } } },
  create(context) {
    seen.contexts.push(context);
    if (context.blockSize === context.parameters.refused) throw new Error('not with blocks of ' + context.blockSize);
    return { picker: pickWorker({ pick: () => 0 }) };
  },
});
`,
  );
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));
beforeEach(() => {
  seen.contexts.length = 0;
  seen.parsed = 0;
  Reflect.set(globalThis, SEEN, seen);
});
afterEach(() => Reflect.deleteProperty(globalThis, SEEN));

const clock = new ManualClock();
function load(yaml: string, log = NO_LOG) {
  const { config, source } = parseConfig(`plugins: [./seen.ts]\n${yaml}`, join(folder, 'policy.yaml'));
  return createPluginHost({ config, source, clock, log });
}

describe('create', () => {
  it('is given what it is made for', async () => {
    const lines: [string, LogFields | undefined][] = [];
    const log = { ...NO_LOG, info: (text: string, fields?: LogFields) => void lines.push([text, fields]) };
    const host = await load(
      'models: { tiny: { block_size: 32, routing_group: blue } }\nworker_selection: { decode: { type: seen, parameters: { a: 1 } } }',
      log,
    );
    seen.contexts.length = 0;
    host.roleRuntime({ model: 'tiny', routingGroup: 'blue' }, 'decode');
    const [context] = seen.contexts;
    expect(context).toEqual({
      parameters: { a: 1 },
      clock: { now: expect.any(Function), schedule: expect.any(Function) },
      rng: expect.anything(),
      log: expect.anything(),
      metrics: expect.anything(),
      partition: { model: 'tiny', routingGroup: 'blue' },
      role: 'decode',
      blockSize: 32,
    });
    expect(context?.clock.now()).toBe(clock.now());
    expect(() => context?.clock.schedule(Number.NaN, () => undefined)).toThrow(
      /^clock\.schedule: delayMs must/,
    );
    expect([0, 1, 2]).toContain(context?.rng.integer(3));
    context?.log.info('hello');
    expect(lines).toContainEqual(['hello', undefined]);
  });

  it('that throws for a partition that appears later costs that partition alone', async () => {
    const host = await load(
      'models: { tiny: {}, other: {} }\nworker_selection: { decode: { type: seen, parameters: { refused: 64 } } }',
    );
    const of = (model: string, blockSize: number) =>
      host.roleRuntime({ model, routingGroup: 'default' }, 'decode', blockSize);
    for (let time = 0; time < 2; time += 1) {
      expect(() => of('tiny', 64)).toThrow(
        expect.objectContaining({
          code: 'PM_PARTITION_NOT_READY',
          message:
            'model tiny cannot be served in role decode: create of worker-selection policy seen threw for role decode',
          cause: expect.objectContaining({
            code: 'PM_PLUGIN_THREW',
            cause: new Error('not with blocks of 64'),
          }),
        }),
      );
    }
    expect(of('other', 16).policy.type).toBe('seen');
    expect(of('tiny', 32).policy.type).toBe('seen');
  });

  it('that threw for such a partition is tried again after 10 s, and not before', async () => {
    const host = await load(
      'models: { tiny: {} }\nworker_selection: { decode: { type: seen, parameters: { refused: 64 } } }',
    );
    const started = clock.now();
    const triedAt: number[] = [];
    for (const ms of [0, 1, 9_999, 10_000, 19_999, 20_000]) {
      clock.advanceTo(started + ms);
      seen.contexts.length = 0;
      expect(() => host.roleRuntime({ model: 'tiny', routingGroup: 'default' }, 'decode', 64)).toThrow();
      if (seen.contexts.length > 0) triedAt.push(ms);
    }
    expect(triedAt).toEqual([0, 10_000, 20_000]);
  });
});

describe('the schema of an instance', () => {
  it('is asked once, however many roles use it', async () => {
    const roles = 'prefill: one, decode: one, encode: { instance: one }';
    await load(`worker_selection: { ${roles}, instances: [{ name: one, type: seen }] }`);
    expect(seen.parsed).toBe(1);
    expect(seen.contexts.map(({ role }) => role)).toEqual(['prefill', 'decode', 'encode']);
  });
});

describe('every built-in policy', () => {
  it('refuses a parameter that it does not know', async () => {
    const { config } = parseConfig('', 'router.yaml');
    const catalog = builtinCatalog(config.router);
    const entries = [...catalog.selections.values(), ...catalog.hints.values()];
    expect(entries.map(({ type }) => type)).toContain('kv_fetch');
    for (const entry of entries) {
      const { faults } = await entry.prepare({ no_such_key: 1 });
      expect([entry.type, faults?.map(({ path }) => path)]).toEqual([entry.type, [['no_such_key']]]);
    }
  });
});
