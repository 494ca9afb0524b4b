// What each role gets from real YAML, and the runtimes made of it.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { selectionFacts } from '../../tests/support/selection-facts.ts';
import { parseConfig } from '../config/index.ts';
import { type LogFields, ManualClock, NO_LOG, type Role } from '../plugin/index.ts';
import { createCandidateTable, createPluginHost, type PluginHostOptions } from './index.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'host-'));
  writeFileSync(
    join(folder, 'mine.ts'),
    `import { defineHintPolicy, defineWorkerSelectionPolicy, pickWorker } from 'pointsman/plugin';
import { z } from 'zod';
export const pick = defineWorkerSelectionPolicy({
  type: 'mine',
  parameters: z.strictObject({
    limit: z.strictObject({ requests: z.int(), id: z.bigint().optional() }),
    list: z.array(z.strictObject({ name: z.string() })).default([]),
    fail: z.boolean().default(false),
  }),
  create: ({ parameters }) => {
    if (parameters.fail) throw new Error('no luck');
    return { picker: pickWorker({ pick: () => 0 }) };
  },
});
export const everywhere = defineHintPolicy({
  type: 'everywhere',
  inputs: ['load'],
  defaultHosts: ['any-worker-selection'],
  create: () => ({ buildHints: () => [] }),
});
export const under = defineHintPolicy({
  type: 'under-mine',
  defaultHosts: [{ workerSelection: 'mine' }, { workerSelection: 'not-loaded' }],
  actions: ['kv.fetch@1.0'],
  create: () => ({ buildHints: () => [] }),
});
`,
  );
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function load(yaml: string, options: Partial<PluginHostOptions> = {}) {
  const { config, source } = parseConfig(yaml, join(folder, 'policy.yaml'));
  return createPluginHost({ config, source, clock: new ManualClock(), log: NO_LOG, ...options });
}

async function policies(yaml: string): Promise<Partial<Record<Role, string>>> {
  const host = await load(yaml);
  return Object.fromEntries(
    host
      .resolution()
      .map(({ role, policy, hints }) => [
        role,
        [policy.type, policy.instance, hints.map((hint) => hint.name).join('+')].filter(Boolean).join(' '),
      ]),
  );
}

const facts = selectionFacts(256);
const partition = { model: 'tiny', routingGroup: 'default' };

describe('what a role gets', () => {
  it('is the default policy on the KV path where nothing is said', async () => {
    const host = await load('');
    expect(host.resolution()).toHaveLength(4);
    expect(host.resolution()[0]).toEqual({
      role: 'aggregated',
      mode: 'kv',
      kvPath: true,
      policy: { type: 'dynamo-default-cost-fn', instance: null, version: 'builtin' },
      needs: {
        cache: true,
        load: true,
        preferredTaint: true,
        occupancy: false,
        inFlight: false,
        phases: false,
        cachePressure: false,
        outputLength: false,
        timing: false,
        copies: false,
        copyLocations: false,
        lineage: false,
        residency: false,
      },
      provisions: {
        index: 'yes',
        eventSubscription: 'yes',
        chainRetention: 'no',
        copyLocations: 'no',
        lineage: 'no',
        residency: 'no',
        hintStage: 'no',
      },
      hints: [],
      dormantHints: [],
    });
  });

  it('is what it names: default, an instance, or a type, with the hints it lists', async () => {
    const yaml = `
plugins: [./mine.ts]
worker_selection:
  aggregated: default
  prefill: sticky
  decode: { instance: sticky, hints: [{ type: kv_fetch }, { type: kv_fetch, name: again, parameters: { min_additional_blocks: 4 } }] }
  encode: { type: mine, parameters: { limit: { requests: 3 } }, hints: [] }
  instances: [{ name: sticky, type: dynamo-default-cost-fn, parameters: { overlap_score_credit: 2.0 } }]
`;
    expect(await policies(yaml)).toEqual({
      aggregated: 'dynamo-default-cost-fn everywhere',
      prefill: 'dynamo-default-cost-fn sticky everywhere',
      decode: 'dynamo-default-cost-fn sticky kv_fetch+again',
      encode: 'mine',
    });
    const { warnings } = await load(yaml);
    expect(warnings.map(({ message }) => message)).toEqual([
      'kv_fetch and again of role decode may both send kv.fetch, and engines read only the first; keep one',
    ]);
  });

  it('includes hints by default host, in registration order, when it lists none', async () => {
    const yaml =
      'plugins: [./mine.ts]\nworker_selection: { decode: { type: mine, parameters: { limit: { requests: 1 } } } }';
    expect((await policies(yaml)).decode).toBe('mine everywhere+under-mine');
    const host = await load(yaml);
    const [aggregated, , decode] = host.resolution();
    expect(decode?.hints[0]).toEqual({ name: 'everywhere', type: 'everywhere', listed: false });
    expect(aggregated?.needs.load).toBe(true);
    expect(decode?.needs).toMatchObject({ cache: false, load: true });
  });

  it('keeps the hints that run by default before the one of kv_hint_policy, once each', async () => {
    const yaml =
      'plugins: [./mine.ts]\nworker_selection: { decode: random, prefill: { hints: [] } }\nkv_hint_policy: ';
    expect(await policies(`${yaml}{ type: kv_fetch }`)).toMatchObject({
      decode: 'random everywhere+kv_fetch',
      prefill: 'dynamo-default-cost-fn kv_fetch',
    });
    expect(await policies(`${yaml}{ type: everywhere, name: mine }`)).toMatchObject({
      decode: 'random mine',
    });
  });

  it('needs the index for copy locations even if its policy looks at no cache', async () => {
    const host = await load(
      'worker_selection: { aggregated: { type: round-robin, hints: [{ type: kv_fetch }] } }',
    );
    expect(host.resolution()[0]?.needs).toMatchObject({ cache: true, copyLocations: true, load: false });
    expect(host.resolution()[0]?.kvPath).toBe(true);
  });

  it.each(['round-robin', 'random', 'power-of-two', 'least-loaded', 'direct'])(
    'is the policy of router mode %s, without hints',
    async (mode) => {
      const lines: [string, LogFields | undefined][] = [];
      const log = { ...NO_LOG, info: (text: string, fields?: LogFields) => void lines.push([text, fields]) };
      const host = await load(`plugins: [./mine.ts]\nrouter: { mode: ${mode} }`, { log });
      const [aggregated] = host.resolution();
      expect(aggregated).toMatchObject({
        kvPath: false,
        policy: { type: mode },
        hints: [],
        dormantHints: ['everywhere'],
      });
      expect(aggregated?.needs).toMatchObject({ cache: false, load: false, copyLocations: false });
      expect(host.roleRuntime(partition, 'aggregated', 16).hintStage).toBeNull();
      expect(lines).toContainEqual([
        'default hints do not run: the router mode books off the KV path',
        { role: 'aggregated', mode, hints: 'everywhere' },
      ]);
      expect(lines).toContainEqual([
        'a hint policy names a default host that is not loaded',
        { hint: 'under-mine', workerSelection: 'not-loaded' },
      ]);
    },
  );

  it('takes cost weights from the router section, and its own parameters before them', async () => {
    const host = await load(`
router: { overlap_score_credit: 3, host_cache_hit_weight: 0.5, router_temperature: 0.2 }
worker_selection: { decode: { type: dynamo-default-cost-fn, parameters: { overlap_score_credit: 4 } } }
`);
    const weights = (role: Role) => host.roleRuntime(partition, role, 16).costWeights;
    expect(weights('aggregated')).toEqual({
      overlap_score_credit: 3,
      overlap_score_credit_decay: 0,
      prefill_load_scale: 1,
      decode_active_request_weight: 0,
      host_cache_hit_weight: 0.5,
      disk_cache_hit_weight: 0.25,
      shared_cache_multiplier: 0,
      router_temperature: 0.2,
    });
    expect(weights('decode')).toMatchObject({ overlap_score_credit: 4, host_cache_hit_weight: 0.5 });
  });
});

describe('runtimes', () => {
  const rows = async (yaml: string, roles: readonly Role[] = ['aggregated'], seed?: number) => {
    const host = await load(yaml, seed === undefined ? {} : { seed });
    const table = createCandidateTable(32);
    table.count = 32;
    return roles.map((role) => {
      const runtime = host.roleRuntime(partition, role, 16);
      return Array.from({ length: 24 }, () => runtime.select(table, facts).row).join();
    });
  };

  it('repeat with the same router.seed, differ with another, and differ between roles', async () => {
    const [aggregated, decode] = await rows('router: { seed: 7 }', ['aggregated', 'decode']);
    expect(await rows('router: { seed: 7 }')).toEqual([aggregated]);
    expect(await rows('router: { seed: 0 }', ['aggregated'], 7)).toEqual([aggregated]);
    expect(await rows('router: { seed: 8 }')).not.toEqual([aggregated]);
    expect(decode).not.toBe(aggregated);
  });

  it('take a seed from the system when none is given, and tell it', async () => {
    const [one, two] = [await load(''), await load('')];
    expect(one.seed).toBeGreaterThan(0);
    expect(one.seed).not.toBe(two.seed);
  });

  it('are made once per partition, role and block size', async () => {
    const host = await load('models: { tiny: { block_size: 32 } }');
    const runtime = host.roleRuntime(partition, 'decode');
    expect(host.roleRuntime({ ...partition }, 'decode', 32)).toBe(runtime);
    expect(host.roleRuntime(partition, 'decode', 16)).not.toBe(runtime);
    expect(host.roleRuntime(partition, 'prefill')).not.toBe(runtime);
  });

  it('wait for the block size of a model that does not say it', async () => {
    const host = await load('models: { tiny: {} }');
    expect(() => host.roleRuntime(partition, 'decode')).toThrow(
      "the block size of model tiny is not known yet: set models.tiny.block_size, or wait for its workers' first BlockStored",
    );
    expect(host.roleRuntime(partition, 'decode', 16).policy.type).toBe('dynamo-default-cost-fn');
  });
});
