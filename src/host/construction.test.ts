// When policies are created and disposed: at startup for what is configured, later for partitions that appear later, once for what is
// shared.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parseConfig } from '../config/index.ts';
import { type LogFields, ManualClock, NO_LOG, PointsmanError } from '../plugin/index.ts';
import { createPluginHost } from './index.ts';

/** What the plugins of this file write down. */
const KEY = Symbol.for('pointsman construction test');
const PLUGIN = `import { defineHintPolicy, defineWorkerSelectionPolicy, pickWorker } from 'pointsman/plugin';
import { z } from 'zod';
const life = () => globalThis[Symbol.for('pointsman construction test')];
const parameters = z.strictObject({ n: z.int().default(0), slow: z.boolean().default(false) });
const site = ({ partition, role, blockSize }) => (partition ? partition.model + '/' + role + '/' + blockSize : 'nowhere');
const hint = (type, scope) => defineHintPolicy({ type, scope, parameters, create(context) {
  const name = type + context.parameters.n + ' ' + site(context);
  if (life().throwFor === site(context)) throw new Error('not for ' + name);
  life().log.push('+' + name);
  const end = () => void life().log.push('-' + name);
  return {
    buildHints: () => [],
    dispose: () => (context.parameters.slow ? Promise.resolve().then(end) : end()),
  };
} });
export const one = hint('one', 'partition');
export const two = hint('two', 'partition');
export const all = hint('all', 'shared');
export const every = hint('every', 'shared');
export const pick = defineWorkerSelectionPolicy({ type: 'pick', create(context) {
  life().log.push('+pick ' + site(context));
  return { picker: pickWorker({ pick: () => 0 }), dispose: () => void life().log.push('-pick ' + site(context)) };
} });
`;

const life = { log: [] as string[], throwFor: '' };
let folder = '';
beforeAll(() => {
  Reflect.set(globalThis, KEY, life);
  folder = mkdtempSync(join(tmpdir(), 'construction-'));
  writeFileSync(join(folder, 'life.mjs'), PLUGIN);
});
afterAll(() => {
  Reflect.deleteProperty(globalThis, KEY);
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => {
  life.log = [];
  life.throwFor = '';
});

/** What happened since the last look. */
const happened = (): string[] => life.log.splice(0);

async function hostOf(yaml: string) {
  const clock = new ManualClock();
  const errors: [string, LogFields | undefined][] = [];
  const log = { ...NO_LOG, error: (text: string, fields?: LogFields) => void errors.push([text, fields]) };
  const { config, source } = parseConfig(`plugins: [./life.mjs]\n${yaml}`, join(folder, 'router.yaml'));
  const host = await createPluginHost({ config, source, clock, log });
  return { host, clock, errors };
}
const of = (model: string) => ({ model, routingGroup: 'default' });

describe('a partition that appears after startup', () => {
  const yaml =
    'models: { a: { block_size: 16 } }\nworker_selection: { decode: { type: pick, hints: [{ type: one }] } }';

  it('gets policies of its own when it is first asked for', async () => {
    const { host } = await hostOf(yaml);
    expect(happened()).toEqual([
      '+pick a/decode/16',
      '+one0 a/decode/16',
      '-one0 a/decode/16',
      '-pick a/decode/16',
    ]);
    const runtime = host.roleRuntime(of('late'), 'decode', 32);
    expect(host.roleRuntime(of('late'), 'decode', 32)).toBe(runtime);
    expect(happened()).toEqual(['+pick late/decode/32', '+one0 late/decode/32']);
    await host.dispose();
    expect(happened()).toEqual(['-one0 late/decode/32', '-pick late/decode/32']);
  });

  it('whose create throws is not ready, with the reason, while others serve, and is tried again after a pause', async () => {
    const { host, clock, errors } = await hostOf(yaml);
    happened();
    host.roleRuntime(of('a'), 'decode');
    life.throwFor = 'late/decode/32';
    const attempt = () => {
      try {
        return host.roleRuntime(of('late'), 'decode', 32);
      } catch (thrown) {
        if (thrown instanceof PointsmanError) return thrown;
        throw thrown;
      }
    };
    const reason =
      'model late cannot be served in role decode: create of hint policy one threw for role decode';
    const failed = { partition: of('late'), role: 'decode', reason, cause: 'not for one0 late/decode/32' };
    const pending = { ...failed, due: false };
    expect(attempt()).toMatchObject({ code: 'PM_PARTITION_NOT_READY', status: 503, message: reason });
    expect(host.failures()).toEqual([pending]);
    // What had been created before it is gone again.
    expect(happened()).toEqual([
      '+pick a/decode/16',
      '+one0 a/decode/16',
      '+pick late/decode/32',
      '-pick late/decode/32',
    ]);
    expect(errors).toEqual([
      [
        'a partition is not ready: its policies cannot be created',
        {
          model: 'late',
          routing_group: 'default',
          role: 'decode',
          error: 'create of hint policy one threw for role decode',
          cause: 'not for one0 late/decode/32',
        },
      ],
    ]);
    clock.advanceTo(9_999);
    expect(attempt()).toBeInstanceOf(PointsmanError);
    expect(host.roleRuntime(of('a'), 'decode').policy.type).toBe('pick');
    expect(happened()).toEqual([]);
    clock.advanceTo(10_000);
    expect(host.failures()).toEqual([{ ...failed, due: true }]);
    life.throwFor = '';
    expect(attempt()).toMatchObject({ policy: { type: 'pick' } });
    expect(host.failures()).toEqual([]);
    expect(happened()).toEqual(['+pick late/decode/32', '+one0 late/decode/32']);
    await host.dispose();
  });

  it('that failed for a block size it turns out not to have is not reported for ever', async () => {
    const { host } = await hostOf(yaml);
    life.throwFor = 'late/decode/16';
    // While the block size of a model is not known, 16 stands in for it.
    expect(() => host.roleRuntime(of('late'), 'decode', 16)).toThrow('cannot be served');
    expect(host.failures()).toHaveLength(1);
    expect(host.roleRuntime(of('late'), 'decode', 32).policy.type).toBe('pick');
    expect(host.failures()).toEqual([]);
    life.throwFor = '';
    await host.dispose();
  });
});

describe('scope shared', () => {
  it('is one instance per configured instance, whatever the partitions and roles, and is disposed once', async () => {
    const { host } = await hostOf(`models: { a: { block_size: 16 }, b: { block_size: 16 } }
worker_selection:
  aggregated: { type: round-robin, hints: [{ type: all }, { type: all, name: again, parameters: { n: 0 } }] }
  prefill: { type: round-robin, hints: [{ type: all, parameters: { n: 7 } }] }
  decode: { type: round-robin, hints: [{ type: all }] }`);
    // {} and { n: 0 } are two spellings, and with them two instances: what is compared is what was written.
    expect(happened()).toEqual(['+all0 nowhere', '+all0 nowhere', '+all7 nowhere']);
    for (const model of ['a', 'b', 'late']) {
      for (const role of ['aggregated', 'prefill', 'decode'] as const) host.roleRuntime(of(model), role, 16);
    }
    expect(happened()).toEqual([]);
    await host.dispose();
    expect(happened()).toEqual(['-all7 nowhere', '-all0 nowhere', '-all0 nowhere']);
    await host.dispose();
    expect(happened()).toEqual([]);
  });
});

describe('dispose', () => {
  it('ends hints before their selection, later partitions before earlier ones, and what is shared last', async () => {
    const { host } = await hostOf(
      'worker_selection: { decode: { type: pick, hints: [{ type: all }, { type: one }, { type: every }, { type: two }] } }',
    );
    for (const model of ['a', 'b']) host.roleRuntime(of(model), 'decode', 16);
    happened();
    await host.dispose();
    expect(happened()).toEqual([
      ...['-two0 b/decode/16', '-one0 b/decode/16', '-pick b/decode/16'],
      ...['-two0 a/decode/16', '-one0 a/decode/16', '-pick a/decode/16'],
      ...['-every0 nowhere', '-all0 nowhere'],
    ]);
  });

  it('of the trials at startup has ended before anything is created to serve', async () => {
    const { host } = await hostOf(
      'worker_selection: { decode: { type: pick, hints: [{ type: one, parameters: { slow: true } }] } }',
    );
    expect(happened().filter((line) => line.includes('one'))).toEqual([
      '+one0 default/decode/16',
      '-one0 default/decode/16',
    ]);
    await host.dispose();
    expect(happened()).toEqual([]);
  });

  it('undoes everything that a refused start has created', async () => {
    life.throwFor = 'default/prefill/16';
    const start = hostOf(
      'worker_selection: { decode: { type: pick, hints: [{ type: all }, { type: one }] }, prefill: { type: pick, hints: [{ type: two }] } }',
    );
    await expect(start).rejects.toThrow(
      'create of hint policy two threw for role prefill: not for two0 default/prefill/16',
    );
    const counts = new Map<string, number>();
    for (const line of happened()) {
      counts.set(line.slice(1), (counts.get(line.slice(1)) ?? 0) + (line.startsWith('+') ? 1 : -1));
    }
    expect([...counts]).toEqual([
      ['pick default/prefill/16', 0],
      ['pick default/decode/16', 0],
      ['all0 nowhere', 0],
      ['one0 default/decode/16', 0],
    ]);
  });
});
