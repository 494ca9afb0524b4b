// A policy file in the Rust router's grammar, beside a configuration and alone.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ConfigError } from './config-error.ts';
import { loadConfig, loadPolicyFile, parseConfig } from './load.ts';

const NOTHING = { env: {}, readFile: () => '' };

/** A configuration and the policy file that it names. */
function load(main: string, policy: string) {
  const readFile = () => policy;
  const text = `router_policy_config: policy.yaml\n${main}`;
  const { config, source, warnings } = parseConfig(text, 'conf/router.yaml', { env: {}, readFile });
  return { config, source, warnings: warnings.map((warning) => source.render(warning)) };
}

function problems(main: string, policy: string): string[] {
  try {
    load(main, policy);
    return [];
  } catch (thrown) {
    if (!(thrown instanceof ConfigError)) throw thrown;
    return thrown.report().split('\n');
  }
}

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'pointsman-policy-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

/** The Rust router's kind of file: classes and buckets at the root and for a model, router keys, selection. */
const RUST = `default_policy_family: standard
uncached_isl_buckets: [{ min_tokens: 0, bucket: cached }, { min_tokens: 3072, bucket: uncached }]
policy_classes:
  - { name: a, policy_family: standard, cache_bucket: cached, queue_policy: wspt, quantum: 2048, prefill_busy_threshold_frac: 16, request_queue_limit_per_worker: 1024, cached_token_queue_limit_per_worker: 2097152 }
  - { name: b, policy_family: standard, cache_bucket: uncached, quantum: 512, prefill_busy_threshold_frac: 16, busy_worker_ratio: 0.95, raw_isl_token_queue_limit_per_worker: 1048576 }
  - { name: custom_priority, quantum: 4096, queue_policy: wspt, prefill_busy_threshold: 4096 }
models:
  example/large-model:
    default_policy_family: big
    policy_classes: [{ name: c, policy_family: big, cache_bucket: any, quantum: 1 }]
    uncached_isl_buckets: [{ min_tokens: 0, bucket: any }]
router:
  host_cache_hit_weight: 0.5
  use_kv_events: false
  router_event_threads: 4
  router_replica_sync: false
  shared_cache_type: hicache
  router_track_output_blocks: true
  router_prefill_load_model: aic
request_classifier: { type: pass-through, parameters: {} }
worker_selection:
  prefill: sticky
  instances: [{ name: sticky, type: dynamo-default-cost-fn, parameters: { overlap_score_credit: 2.0 } }]
`;

test('a file of the Rust router runs unmodified; what has no use here gives one warning per key, in its own file', () => {
  const { config, warnings } = load('router: { disk_cache_hit_weight: 0.1 }\n', RUST);
  expect(config.router).toMatchObject({
    hostCacheHitWeight: 0.5,
    diskCacheHitWeight: 0.1,
    useKvEvents: false,
    trackOutputBlocks: true,
    prefillLoadModel: 'none',
  });
  expect(config.workerSelection.prefill?.policy).toEqual({ kind: 'name', name: 'sticky' });
  expect(config.instances.map(({ name }) => name)).toEqual(['sticky']);
  // Its models are queue profiles, not models to serve.
  expect(config.models.size).toBe(0);
  expect(config.queueProfile?.classes.map(({ name }) => name)).toEqual(['a', 'b', 'custom_priority']);
  const unknown = 'has no effect, as the configuration has no model of this name';
  expect(warnings).toEqual([
    `conf/policy.yaml:9:5: models["example/large-model"].default_policy_family: ${unknown}`,
    'conf/policy.yaml:15:3: router.router_event_threads: Pointsman has no use for this key; it has no effect',
    'conf/policy.yaml:16:3: router.router_replica_sync: Pointsman has no use for this key; it has no effect',
    'conf/policy.yaml:17:3: router.shared_cache_type: Pointsman has no use for this key; it has no effect',
    'conf/policy.yaml:19:3: router.router_prefill_load_model: Pointsman foresees prefill by its own model throughput, set in the configuration; it has no effect',
  ]);
});

test('queue profiles of models that the configuration has are theirs, unless it gives them too', () => {
  const { config, warnings } = load('models: { example/large-model: { block_size: 16 } }\n', RUST);
  expect(config.models.get('example/large-model')).toMatchObject({
    blockSize: 16,
    policyClasses: ['big'],
    queueProfile: { defaultFamily: 'big', classes: [{ name: 'c', quantum: 1 }] },
  });
  expect(warnings.filter((warning) => warning.includes('large-model'))).toEqual([]);
  const own =
    'models:\n  example/large-model:\n    default_policy_family: big\n    policy_classes: [{ name: c, policy_family: big, cache_bucket: any, quantum: 1 }]\n    uncached_isl_buckets: [{ min_tokens: 0, bucket: any }]\n';
  expect(problems(own, RUST)).toEqual([
    'conf/policy.yaml:9:5: models["example/large-model"].default_policy_family: is also given at conf/router.yaml:4:5; keep one of the two',
  ]);
});

test('the configuration wins over the router keys of its policy file, which are defaults', () => {
  const main = 'router: { mode: random, host_cache_hit_weight: 0.9, use_kv_events: null }\n';
  const { config } = load(
    main,
    'router: { host_cache_hit_weight: 0.2, use_kv_events: false, router_temperature: 0.3 }',
  );
  expect(config.router).toMatchObject({
    mode: 'random',
    hostCacheHitWeight: 0.9,
    useKvEvents: false,
    routerTemperature: 0.3,
  });
});

test('problems of both files are reported at once, each where it stands', () => {
  const policy = `router:
  router_event_threads: none
  mode: random
  disk_cache_hit_weight: 7
models: { m: { block_size: 16 } }
worker_selection: { decode: { hints: {} } }
listen: { port: 1 }
`;
  expect(problems('limits: { drain: 7 }\n', policy)).toEqual([
    expect.stringContaining('conf/router.yaml:2:18: limits.drain: expected'),
    'conf/policy.yaml:2:25: router.router_event_threads: expected a whole number of at least 1, found "none"',
    expect.stringContaining('conf/policy.yaml:3:3: router.mode: unknown key'),
    'conf/policy.yaml:4:26: router.disk_cache_hit_weight: expected a number from 0 to 1, found 7',
    'conf/policy.yaml:5:16: models.m.block_size: unknown key; known: default_policy_family, policy_classes, uncached_isl_buckets',
    'conf/policy.yaml:6:38: worker_selection.decode.hints: expected a list of hint policies, found a mapping',
    expect.stringContaining('conf/policy.yaml:7:1: listen: unknown key'),
  ]);
});

test('a section in both files is refused with both places', () => {
  expect(
    problems(
      'worker_selection: { decode: random }\nplugins: [./a.ts]\n',
      'plugins: [./b.ts]\nworker_selection: { prefill: random }\n',
    ),
  ).toEqual([
    'conf/policy.yaml:1:1: plugins: is also given at conf/router.yaml:3:1; keep one of the two',
    'conf/policy.yaml:2:1: worker_selection: is also given at conf/router.yaml:2:1; keep one of the two',
  ]);
  // Hints of one role in two spellings, one in each file.
  expect(
    problems(
      'worker_selection:\n  decode: { hints: [] }\n',
      '\nhint_policies: { decode: [{ type: kv_fetch }] }\n',
    ),
  ).toEqual([
    'conf/policy.yaml:2:18: hint_policies.decode: hints of role decode are also given at conf/router.yaml:3:13; keep those, and remove these',
  ]);
  expect(
    load('worker_selection:\n', 'worker_selection: { prefill: random }\n').config.workerSelection.prefill,
  ).toBeDefined();
});

test('rules between queue keys hold in the policy file too, for models as at the root', () => {
  expect(problems('', 'models: { m: { default_policy_family: a } }\npolicy_classes: []\n')).toEqual([
    'conf/policy.yaml:1:16: models.m.default_policy_family: needs policy_classes and uncached_isl_buckets beside it; a queue profile has all three keys',
    'conf/policy.yaml:2:1: policy_classes: needs default_policy_family and uncached_isl_buckets beside it; a queue profile has all three keys',
  ]);
});

test('a policy file that is no mapping, broken, empty or gone is the whole answer', () => {
  expect(problems('', '- a\n')).toEqual([
    'conf/policy.yaml:1:1: the policy file must be a YAML mapping, found a list',
  ]);
  expect(problems('router: { mode: round-robin }\n', '- a\n')).toHaveLength(1);
  expect(problems('', 'a: [\n')[0]).toMatch(/^conf\/policy\.yaml:\d+:\d+: not valid YAML/);
  expect(problems('', 'router:\n')[0]).toMatch(
    /^conf\/policy\.yaml:1:1: the policy file defines nothing; it has at least one of plugins/,
  );
  const gone = {
    env: {},
    readFile: () => {
      throw Object.assign(new Error('x'), { code: 'ENOENT' });
    },
  };
  expect(() => parseConfig('router_policy_config: p.yaml', 'r.yaml', gone)).toThrow(
    'r.yaml:1:23: router_policy_config: the policy file p.yaml cannot be read: no such file',
  );
});

test('read alone it stands over the defaults, and knows no other keys', () => {
  const path = file(
    'policy.yaml',
    'plugins: [./mine.ts]\nrouter: { host_cache_hit_weight: 0.5 }\nhint_policies: { decode: [] }\n',
  );
  const { config, source, warnings } = loadPolicyFile(path, NOTHING);
  expect([config.router.mode, config.router.hostCacheHitWeight, config.listen.port]).toEqual([
    'kv',
    0.5,
    8000,
  ]);
  expect(config.plugins).toEqual([{ specifier: join(folder, 'mine.ts'), path: ['plugins', 0] }]);
  expect(source.render(warnings[0]!).split(': ')[0]).toBe(`${path}:3:1`);
  const wrong = file('wrong.yaml', 'worker_selection: {}\nlisten: { port: 1 }\n');
  expect(() => loadPolicyFile(wrong, NOTHING)).toThrow(`${wrong}:2:1: listen: unknown key`);
});

test('one given from outside takes the place of the one that the configuration names', () => {
  const main = file('router.yaml', 'router_policy_config: absent.yaml\n');
  const other = file('other.yaml', 'worker_selection: { decode: random }\n');
  const { config } = loadConfig(main, NOTHING, { policyFile: other });
  expect(config.workerSelection.decode?.policy).toEqual({ kind: 'name', name: 'random' });
  expect(() => loadConfig(main, NOTHING, { policyFile: join(folder, 'no.yaml') })).toThrow(
    `cannot read the configuration file ${join(folder, 'no.yaml')}: no such file`,
  );
});
