// The classifier a configuration names: found, created, seen by `check`, disposed; and what is wrong with it, with positions.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ConfigError, parseConfig } from '../config/index.ts';
import { Fleet } from '../fleet/index.ts';
import { ManualClock, NO_LOG } from '../plugin/index.ts';
import type { ClassifierOutcome, ClassifierStage } from './classifier-types.ts';
import { createPluginHost, type PluginHostOptions } from './index.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'classifiers-'));
  writeFileSync(
    join(folder, 'mine.ts'),
    `import { defineHintPolicy, defineRequestClassifier } from 'pointsman/plugin';
import { z } from 'zod';
const living = (globalThis.classifiersLiving ??= []);
export const mine = defineRequestClassifier({
  type: 'mine',
  parameters: z.strictObject({ cost: z.int().default(1), fail: z.boolean().default(false) }),
  create: ({ parameters, partition, blockSize, workers }) => {
    if (parameters.fail) throw new Error('no luck');
    const name = partition.model + '/' + partition.routingGroup + '/' + blockSize;
    living.push(name);
    return {
      classify: () => ({ schedulingCostTokens: parameters.cost + workers().length }),
      dispose: () => void living.splice(living.indexOf(name), 1),
    };
  },
});
export const everywhere = defineRequestClassifier({
  type: 'everywhere',
  scope: 'shared',
  create(context) {
    let calls = 0;
    return { classify: () => ({ schedulingCostTokens: ++calls + ('partition' in context ? 1000 : 0) }) };
  },
});
export const half = defineRequestClassifier({
  type: 'half',
  create({ partition: { model } }) {
    if (model === 'b') return { onEvent() {} };
    return { classify() { if (globalThis.halfFails) throw new Error('no'); return { schedulingCostTokens: 3 }; } };
  },
});
export const misspelt = defineRequestClassifier({ type: 'misspelt', create: () => ({ clasify: () => undefined }) });
export const hint = defineHintPolicy({ type: 'hint', create: () => ({ buildHints: () => [] }) });
export function register(registry) {
  registry.registerRequestClassifier('registered', (parameters) => {
    if (Object.keys(parameters).length > 0) throw new Error('takes no parameters');
    return { create: () => ({ classify: () => ({ dueAt: 7 }) }) };
  });
}
`,
  );
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const living = (): readonly string[] => Reflect.get(globalThis, 'classifiersLiving') ?? [];

function load(yaml: string, options: Partial<PluginHostOptions> = {}) {
  const text = yaml.startsWith('plugins') ? yaml : `plugins: [./mine.ts]\n${yaml}`;
  const { config, source } = parseConfig(text, join(folder, 'router.yaml'));
  return createPluginHost({ config, source, clock: new ManualClock(), log: NO_LOG, ...options });
}

async function problems(yaml: string): Promise<readonly string[]> {
  try {
    await load(yaml);
  } catch (thrown) {
    if (!(thrown instanceof ConfigError)) throw thrown;
    return thrown.problems.map((problem) => thrown.source.render(problem).replace(`${folder}/`, ''));
  }
  return [];
}

let requests = 0;
function answerOf(stage: ClassifierStage | null): unknown {
  const outcomes: ClassifierOutcome[] = [];
  stage
    ?.begin({
      requestId: `r${++requests}`,
      session: null,
      promptTokens: 5,
      policyClass: null,
      arrivedAt: 0,
      pinnedWorker: null,
    })
    .classify((outcome) => outcomes.push(outcome));
  const [outcome] = outcomes;
  return outcome?.kind === 'classified' ? outcome.classification.overrides : outcome;
}

const MODELS = 'models: { a: { block_size: 32 }, b: { routing_group: west } }\n';
const A = { model: 'a', routingGroup: 'default' };
const B = { model: 'b', routingGroup: 'west' };

describe('a classifier', () => {
  it('is created once per model at the start, sees its workers, and is disposed', async () => {
    const fleet = new Fleet();
    const host = await load(`${MODELS}request_classifier: { type: mine, parameters: { cost: 10 } }`, {
      fleet,
    });
    expect(living()).toEqual(['a/default/32', 'b/west/null']);
    expect(host.classifier()).toEqual({
      type: 'mine',
      version: expect.stringMatching(/^[0-9a-f]+$/),
      maxWaitMs: 60_000,
    });
    expect(host.classifierFor(A)).toBe(host.classifierFor({ ...A }));
    const worker = {
      id: 1n,
      model: 'a',
      url: 'http://127.0.0.1:1',
      dialect: 'sim',
      role: 'aggregated' as const,
      ranks: { first: 0, count: 2 },
      kvEvents: new Map(),
      maxNumBatchedTokens: null,
      totalKvBlocks: 9,
      taints: [],
      topology: {},
    };
    fleet.add(worker);
    expect(answerOf(host.classifierFor(A))).toEqual({ schedulingCostTokens: 11 });
    expect(answerOf(host.classifierFor(B))).toEqual({ schedulingCostTokens: 10 });
    fleet.setState(1n, 'gone');
    expect(answerOf(host.classifierFor(A))).toMatchObject({ schedulingCostTokens: 10 });
    await host.dispose();
    expect(living()).toEqual([]);
  });

  it('that only listens in one partition does not take the probe of another, where it is tripped', async () => {
    const clock = new ManualClock();
    const host = await load(`${MODELS}request_classifier: half`, { clock });
    Reflect.set(globalThis, 'halfFails', true);
    for (let failure = 0; failure < 5; failure += 1) answerOf(host.classifierFor(A));
    Reflect.set(globalThis, 'halfFails', false);
    expect(answerOf(host.classifierFor(A))).toEqual({});
    expect(host.containment()).toMatchObject([{ plugin: 'half', state: 'tripped' }]);
    clock.advanceTo(10_000);
    expect(answerOf(host.classifierFor(B))).toEqual({});
    expect(answerOf(host.classifierFor(A))).toEqual({ schedulingCostTokens: 3 });
    expect(host.containment()).toMatchObject([{ plugin: 'half', state: 'ok' }]);
    await host.dispose();
  });

  it('of scope shared is one for all models, without a partition', async () => {
    const host = await load(`${MODELS}request_classifier: everywhere`);
    expect([answerOf(host.classifierFor(A)), answerOf(host.classifierFor(B))]).toEqual([
      { schedulingCostTokens: 1 },
      { schedulingCostTokens: 2 },
    ]);
    await host.dispose();
  });

  it('may come from a registry', async () => {
    const host = await load('request_classifier: registered');
    expect(answerOf(host.classifierFor(A))).toEqual({ dueAt: 7 });
    await host.dispose();
  });

  it.each(['', 'request_classifier: pass-through', 'request_classifier: { type: default }'])(
    'that has nothing to say is not asked: "%s"',
    async (yaml) => {
      const host = await load(yaml);
      expect(host.classifierFor(A)).toBeNull();
      expect(host.classifier()?.type ?? null).toBe(yaml === '' ? null : 'pass-through');
      await host.dispose();
    },
  );

  it('may name the families and own classes of the queue profile, per model where it has one', async () => {
    const profile = (family: string) =>
      `default_policy_family: ${family}, uncached_isl_buckets: [{ min_tokens: 0, bucket: any }], policy_classes: [{ name: ${family}-any, policy_family: ${family}, cache_bucket: any, quantum: 1 }, { name: own, quantum: 1 }]`;
    const yaml = `models: { a: { ${profile('chat')} }, b: {} }\n${profile('batch').replaceAll(', uncached', '\nuncached').replaceAll(', policy_classes', '\npolicy_classes')}\n`;
    const { config } = parseConfig(yaml, 'router.yaml');
    expect(config.policyClasses).toEqual(['batch', 'own']);
    expect([config.models.get('a')?.policyClasses, config.models.get('b')?.policyClasses]).toEqual([
      ['chat', 'own'],
      null,
    ]);
    expect(parseConfig('', 'router.yaml').config.policyClasses).toEqual(['default']);
  });
});

describe('a classifier that cannot be used', () => {
  it.each<[string, string, readonly string[]]>([
    [
      'unknown',
      'request_classifier: { type: mien }',
      [
        'router.yaml:2:29: request_classifier.type: unknown request classifier "mien"; known: pass-through, everywhere, half, mine, misspelt, registered (did you mean "mine"?)',
      ],
    ],
    [
      'unknown, as a bare name',
      'request_classifier: pass_through',
      [
        'router.yaml:2:21: request_classifier: unknown request classifier "pass_through"; known: pass-through, everywhere, half, mine, misspelt, registered (did you mean "pass-through"?)',
      ],
    ],
    [
      'of another kind',
      'request_classifier: hint',
      [
        'router.yaml:2:21: request_classifier: hint is a hint policy; list it under the hints of a role, and choose a request classifier: pass-through, everywhere, half, mine, misspelt, registered',
      ],
    ],
    [
      'with wrong parameters',
      'request_classifier: { type: mine, parameters: { csot: 1, fail: 3 } }',
      [
        'router.yaml:2:64: request_classifier.parameters.fail: mine: Invalid input: expected boolean, received number',
        'router.yaml:2:49: request_classifier.parameters.csot: mine: unknown key "csot" (did you mean "cost"?)',
      ],
    ],
    [
      'whose provider refuses',
      'request_classifier: { type: registered, parameters: { a: 1 } }',
      ['router.yaml:2:41: request_classifier.parameters: registered: takes no parameters'],
    ],
    [
      'whose create throws',
      'request_classifier: { type: mine, parameters: { fail: true } }',
      [
        'router.yaml:2:1: request_classifier: create of request classifier mine threw for model default: no luck',
      ],
    ],
    [
      'with a misspelt callback',
      'request_classifier: misspelt',
      [
        'router.yaml:2:1: request_classifier: create of request classifier misspelt returned the unknown member "clasify" (did you mean "classify"?)',
      ],
    ],
  ])('%s', async (_, yaml, found) => {
    expect(await problems(yaml)).toEqual(found);
  });

  it('declares what a classifier does not have, or takes a type that another kind has', async () => {
    const brand = `'~pointsman': { kind: 'request-classifier', apiVersion: '0.1' }, create: () => ({})`;
    writeFileSync(
      join(folder, 'wrong.ts'),
      `export const a = { ${brand}, type: 'wrong', inputs: ['load'] };\nexport const b = { ${brand}, type: 'kv_fetch' };\n`,
    );
    const found = await problems('plugins: [./wrong.ts]');
    expect(found.map((text) => text.replace(/^.*?plugins\[0\]: /, ''))).toEqual([
      'export a of ./wrong.ts: a request classifier has no inputs; leave them out',
      'the policy type kv_fetch is registered by the built-in policies and by ./wrong.ts; types must be unique, rename one of them',
    ]);
  });
});
