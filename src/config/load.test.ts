import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PointsmanError } from '../plugin/index.ts';
import { ConfigError } from './config-error.ts';
import { defaultConfig, loadConfig, MAX_CONFIG_BYTES, parseConfig } from './load.ts';
import type { ConfigSurroundings } from './secrets.ts';

const NOTHING: ConfigSurroundings = {
  env: {},
  readFile: () => {
    throw Object.assign(new Error('gone'), { code: 'ENOENT' });
  },
};

/** Every problem of a text, rendered. */
function problems(text: string, file = 'router.yaml', surroundings = NOTHING): string[] {
  try {
    parseConfig(text, file, surroundings);
  } catch (thrown) {
    if (!(thrown instanceof ConfigError)) throw thrown;
    return thrown.report().split('\n');
  }
  return [];
}

const warnings = (text: string): string[] => {
  const { source, warnings: found } = parseConfig(text, 'router.yaml', NOTHING);
  return found.map((warning) => source.render(warning));
};

test('an unknown key points at the key and names the nearest valid one', () => {
  expect(problems('router:\n  overlap_score_credt: 2\n')).toEqual([
    'router.yaml:2:3: router.overlap_score_credt: unknown key (did you mean "overlap_score_credit"?)',
  ]);
});

test('an unknown key that is near nothing lists the known ones', () => {
  expect(problems('replicas: { zebra: 1 }')).toEqual([
    'router.yaml:1:13: replicas.zebra: unknown key; known: enabled',
  ]);
});

test('a wrong type names the expected form and points at the value', () => {
  expect(
    problems('limits:\n  drain: 30\n  body_bytes: 16MB\n  prompt_tokens: many\nrouter: { use_kv_events: 1 }'),
  ).toEqual([
    'router.yaml:2:10: limits.drain: expected a duration such as 500ms, 30s or 2m, from 0ms to 1h, found 30',
    'router.yaml:3:15: limits.body_bytes: expected a size such as 64KiB, 256MiB or a number of bytes, from 1KiB to 1GiB, found "16MB"',
    'router.yaml:4:18: limits.prompt_tokens: expected a whole number from 1 to 2147483647, found "many"',
    'router.yaml:5:26: router.use_kv_events: expected true or false, found 1',
  ]);
});

test('all problems of a file are reported at once, also those between keys of sound sections', () => {
  expect(
    problems(
      [
        'lisen: {}',
        'router: { mode: kw }',
        'models: { tiny: { block_size: 16 } }',
        'workers:',
        '  - { model: tinny, url: http://127.0.0.1:1 }',
      ].join('\n'),
    ),
  ).toEqual([
    'router.yaml:1:1: lisen: unknown key (did you mean "listen"?)',
    'router.yaml:2:17: router.mode: expected one of kv, round-robin, random, power-of-two, least-loaded, direct, found "kw" (did you mean "kv"?)',
    'router.yaml:5:14: workers[0].model: no model is named "tinny" (did you mean "tiny"?)',
  ]);
});

test('a missing key points at the mapping that lacks it', () => {
  expect(problems('models: { a: { } }\nworkers:\n  - id: 1\n')).toEqual([
    'router.yaml:3:5: workers[0].url: is required: a url such as http://127.0.0.1:9000, without credentials, query or fragment',
  ]);
});

test('duplicate keys name the line of the first', () => {
  expect(problems('router:\n  seed: 1\n  mode: kv\n  seed: 2\n')).toEqual([
    'router.yaml:4:3: router.seed: duplicate key "seed", first given on line 2',
  ]);
});

test('a file that is no mapping is refused in the words of its kind', () => {
  expect(problems('- a\n- b', 'policy.yaml')).toEqual([
    'policy.yaml:1:1: the policy file must be a YAML mapping, found a list',
  ]);
  expect(problems('kv', 'policy.yaml')).toEqual([
    'policy.yaml:1:1: the policy file must be a YAML mapping, found "kv"',
  ]);
});

test('broken YAML, unknown tags and second documents are positioned problems', () => {
  expect(problems('router: [1, 2')).toEqual([
    'router.yaml:1:14: not valid YAML: flow sequence in block collection must be sufficiently indented and end with a ]',
  ]);
  expect(problems('router: !secret x')).toEqual(['router.yaml:1:9: not valid YAML: unresolved tag: !secret']);
  expect(problems('a: 1\n---\nb: 2')[0]).toContain('router.yaml:2:1: not valid YAML: ');
});

test('aliases are followed, and a bomb, a loop and a missing anchor are problems', () => {
  const { config } = parseConfig(
    'plugins: &p [./a.ts]\nrouter: { seed: &s 7 }\nlimits: { prompt_tokens: *s }',
    'r.yaml',
    NOTHING,
  );
  expect([config.router.seed, config.limits.promptTokens]).toEqual([7, 7]);
  const rows = Array.from(
    { length: 9 },
    (_, level) => `k${level}: &k${level} [${`*k${level - 1},`.repeat(level ? 9 : 0)}x]`,
  );
  expect(problems(rows.join('\n'))).toEqual([
    'router.yaml:1:1: holds more than 1000000 values once its aliases are followed',
  ]);
  expect(problems('plugins: &a [*a]')).toEqual([
    'router.yaml:1:14: plugins[0]: alias *a stands inside the value it names',
  ]);
  expect(problems('plugins: *b')).toEqual(['router.yaml:1:10: plugins: alias *b names no anchor above it']);
});

test('text over the size cap is refused before it is parsed', () => {
  expect(problems(`#${' '.repeat(MAX_CONFIG_BYTES)}`)).toEqual([
    'router.yaml: has 4194305 characters; at most 4194304 are read',
  ]);
});

test('worker ids are exact 64-bit integers', () => {
  const text = 'models: { m: {} }\nworkers: [{ id: 18446744073709551615, url: "http://127.0.0.1:1/" }]';
  const { config } = parseConfig(text, 'router.yaml', NOTHING);
  expect(config.workers[0]).toMatchObject({
    id: 18446744073709551615n,
    model: 'm',
    url: 'http://127.0.0.1:1',
  });
  expect(problems(text.replace('615', '616'))).toEqual([
    'router.yaml:2:17: workers[0].id: expected a bare integer from 0 to 18446744073709551615, found 18446744073709551616',
  ]);
});

test('parameters of plugins stay raw, with integers beyond 2^53 exact', () => {
  const text =
    'worker_selection: { decode: { type: x, parameters: { a: 9007199254740993, b: 3, c: null } } }';
  const entry = parseConfig(text, 'policy.yaml', NOTHING).config.workerSelection.decode;
  expect(entry?.parameters).toEqual({ a: 9007199254740993n, b: 3, c: null });
});

test('a file of policy sections alone is valid', () => {
  const text = [
    'plugins: [./policies/mark.ts, "@acme/policies"]',
    'worker_selection:',
    '  aggregated:',
    '    type: dynamo-default-cost-fn',
    '    on_commit_failure: release',
    '    hints:',
    '      - { type: kv_fetch, parameters: { min_additional_blocks: 4 } }',
    '      - { type: mark, name: second }',
    '  prefill: { instance: sticky }',
    '  decode: round-robin',
    '  encode: { hints: [] }',
    '  instances: [{ name: sticky, type: kvcr }]',
  ].join('\n');
  const { config, warnings: found } = parseConfig(text, 'policy.yaml', NOTHING);
  expect(found).toEqual([]);
  expect(config.plugins).toEqual([
    { specifier: './policies/mark.ts', path: ['plugins', 0] },
    { specifier: '@acme/policies', path: ['plugins', 1] },
  ]);
  const hintPath = ['worker_selection', 'aggregated', 'hints'];
  expect(config.workerSelection).toEqual({
    aggregated: {
      policy: { kind: 'type', type: 'dynamo-default-cost-fn' },
      parameters: {},
      onCommitFailure: 'release',
      hints: [
        {
          type: 'kv_fetch',
          name: 'kv_fetch',
          parameters: { min_additional_blocks: 4 },
          path: [...hintPath, 0],
        },
        { type: 'mark', name: 'second', parameters: {}, path: [...hintPath, 1] },
      ],
      path: ['worker_selection', 'aggregated'],
    },
    prefill: {
      policy: { kind: 'instance', name: 'sticky' },
      parameters: {},
      onCommitFailure: 'degrade',
      hints: null,
      path: ['worker_selection', 'prefill'],
    },
    decode: {
      policy: { kind: 'name', name: 'round-robin' },
      parameters: {},
      onCommitFailure: 'degrade',
      hints: null,
      path: ['worker_selection', 'decode'],
    },
    encode: {
      policy: { kind: 'name', name: 'default' },
      parameters: {},
      onCommitFailure: 'degrade',
      hints: [],
      path: ['worker_selection', 'encode'],
    },
  });
  expect(config.instances).toEqual([
    { name: 'sticky', type: 'kvcr', parameters: {}, path: ['worker_selection', 'instances', 0] },
  ]);
});

test('wrong shapes under worker_selection are positioned', () => {
  expect(
    problems(
      [
        'worker_selection:',
        '  aggregated: [a]',
        '  prefill: { typ: x, hints: 3 }',
        '  decode: { type: x, hints: [{ tipe: y }, z] }',
        '  encode: { parameters: 3 }',
        '  instances: { a: b }',
      ].join('\n'),
      'policy.yaml',
    ),
  ).toEqual([
    'policy.yaml:2:15: worker_selection.aggregated: expected a policy name or a mapping, found a list',
    'policy.yaml:3:14: worker_selection.prefill.typ: unknown key (did you mean "type"?)',
    'policy.yaml:3:29: worker_selection.prefill.hints: expected a list of hint policies, found 3',
    'policy.yaml:4:30: worker_selection.decode.hints[0].type: is required: a name of letters, digits, "_", "." and "-"',
    'policy.yaml:4:32: worker_selection.decode.hints[0].tipe: unknown key (did you mean "type"?)',
    'policy.yaml:4:43: worker_selection.decode.hints[1]: expected a mapping, found "z"',
    'policy.yaml:5:25: worker_selection.encode.parameters: expected a mapping, found 3',
    'policy.yaml:6:14: worker_selection.instances: expected a list of instances, found a mapping',
  ]);
});

test('null counts as absent everywhere, and hints without a value warns', () => {
  expect(
    warnings(
      'router:\nlimits: { drain: null }\nplugins:\nworker_selection:\n  decode:\n    type: x\n    hints:\n',
    ),
  ).toEqual([
    'router.yaml:7:5: worker_selection.decode.hints: has no value, which counts as absent; write hints: [] to run none',
  ]);
});

test('each key of a part that is not built yet gives one warning', () => {
  const found = warnings(
    [
      'request_classifier: { type: mine }',
      'policy_classes: [{ name: a, quantum: 1 }]',
      'discovery: { nats: { url: x } }',
      'replicas: { enabled: true }',
      'services: { selection: { port: 8092 } }',
      'containment: { soft_budget: 1ms }',
      'router_policy_config: policy.yaml',
      'limits: { index_bytes: 512MiB }',
      'observe: { tracing: { otlp: http://127.0.0.1:4318 } }',
    ].join('\n'),
  );
  expect(found).toEqual([
    'router.yaml:1:1: request_classifier: request classifiers other than pass-through are not built yet; it has no effect in this version',
    'router.yaml:2:1: policy_classes: admission queues are not built yet; it has no effect in this version',
    'router.yaml:3:14: discovery.nats: discovery through nats is not built yet; it has no effect in this version',
    'router.yaml:4:13: replicas.enabled: replicas are not built yet; it has no effect in this version',
    'router.yaml:5:13: services.selection: the selection service is not built yet; it has no effect in this version',
    'router.yaml:6:1: containment: budgets and breakers are not built yet; it has no effect in this version',
    'router.yaml:7:1: router_policy_config: separate policy files are not built yet; it has no effect in this version',
    'router.yaml:8:11: limits.index_bytes: the cap on the index is not built yet; it has no effect in this version',
    'router.yaml:9:23: observe.tracing.otlp: tracing is not built yet; it has no effect in this version',
  ]);
});

test('secrets come from the environment or a file beside the configuration', () => {
  const text =
    'admin: { token: { file: ./admin.token } }\nauth: { api_keys: [{ name: a, sha256: { env: KEY }, tenant: t }] }';
  const hash = 'AB'.repeat(32);
  const read: string[] = [];
  const { config } = parseConfig(text, 'conf/router.yaml', {
    env: { KEY: hash },
    readFile: (path) => {
      read.push(path);
      return 'secret\n';
    },
  });
  expect(config.admin.token).toBe('secret');
  expect(config.auth).toEqual({
    apiKeys: [{ name: 'a', sha256: 'ab'.repeat(32), models: null, tenant: 't' }],
  });
  expect(read).toEqual([resolve('conf', 'admin.token')]);
});

test('secrets that are not there are problems, and none is ever repeated', () => {
  const text =
    'admin: { token: { env: GONE } }\nauth: { api_keys: [{ name: a, sha256: { file: x } }, { name: b, sha256: { env: BAD } }] }';
  expect(problems(text, 'router.yaml', { ...NOTHING, env: { BAD: 'hunter2' } })).toEqual([
    'router.yaml:1:17: admin.token: environment variable GONE is not set',
    'router.yaml:2:39: auth.api_keys[0].sha256: secret file x cannot be read: no such file',
    'router.yaml:2:73: auth.api_keys[1].sha256: the secret it names must be 64 hexadecimal digits (SHA-256 of the key)',
  ]);
  try {
    parseConfig('admin: { port: x, token: hunter2 }', 'router.yaml', NOTHING);
  } catch (thrown) {
    expect(thrown instanceof ConfigError && thrown.report({ excerpt: true })).toBe(
      [
        'router.yaml:1:16: admin.port: expected a whole number from 0 to 65535, found "x"',
        '   1 | admin: { port: x, token: ******* }',
        '     |                ^',
        'router.yaml:1:26: admin.token: expected { env: NAME } or { file: PATH }, found a plain value; the secret itself never stands in the file',
        '   1 | admin: { port: x, token: ******* }',
        '     |                          ^',
      ].join('\n'),
    );
  }
  expect.assertions(2);
});

test('the admin API off loopback needs a token', () => {
  expect(problems('admin:\n  host: 0.0.0.0\n')).toEqual([
    'router.yaml:2:9: admin.host: the admin API on 0.0.0.0 can be reached from other machines, so it needs a token; add token: { env: NAME }, or use 127.0.0.1',
  ]);
  expect(
    problems('admin: { host: 0.0.0.0, token: { env: T } }', 'r.yaml', { ...NOTHING, env: { T: 'x' } }),
  ).toEqual([]);
  expect(problems('admin: { host: "::1" }')).toEqual([]);
});

test('names, ids, urls and ranks that clash are reported where the second stands', () => {
  const text = [
    'models: { a: { aliases: [b] }, b: {}, c: { tokens: { source: local } }, d: { tokens: { source: engine, tokenizer: t } } }',
    'workers:',
    '  - { id: 1, model: a, url: http://127.0.0.1:1 }',
    '  - { id: 1, model: a, url: http://127.0.0.1:1/, kv_events: { 1: { connect: "tcp://127.0.0.1:2" } } }',
    '  - { url: http://127.0.0.1:3 }',
    'worker_selection:',
    '  decode: { type: x, instance: y, hints: [{ type: h }, { type: h }] }',
    '  instances: [{ name: default, type: x }, { name: s, type: x }, { name: s, type: y }]',
    'auth: { api_keys: [{ name: k, sha256: { env: H }, models: [z] }, { name: k, sha256: { env: H } }] }',
    'admin: { port: 8000 }',
  ].join('\n');
  expect(problems(text, 'r.yaml', { ...NOTHING, env: { H: 'a'.repeat(64) } })).toEqual([
    'r.yaml:1:26: models.a.aliases[0]: "b" already names model "b"',
    'r.yaml:1:44: models.c.tokens.tokenizer: is required with source: local: the path of a tokenizer.json',
    'r.yaml:1:104: models.d.tokens.tokenizer: is read only with source: local, not source: engine',
    'r.yaml:4:11: workers[1].id: worker id 1 is given twice',
    'r.yaml:4:29: workers[1].url: a worker with the url http://127.0.0.1:1 is already listed',
    'r.yaml:4:63: workers[1].kv_events.1: this worker has only rank 0, not "1"',
    'r.yaml:5:5: workers[2].model: is required: several models are configured, so each worker says which key of models it serves',
    'r.yaml:7:22: worker_selection.decode.instance: a role has either a type or an instance, not both',
    'r.yaml:7:56: worker_selection.decode.hints[1]: hint policy name "h" is used twice in decode; give one of them another name',
    'r.yaml:8:23: worker_selection.instances[0].name: "default" names the built-in policy; use another name',
    'r.yaml:8:73: worker_selection.instances[2].name: instance "s" is defined twice',
    'r.yaml:9:60: auth.api_keys[0].models[0]: no model or alias is named "z" (did you mean "a"?)',
    'r.yaml:9:74: auth.api_keys[1].name: API key name "k" is given twice',
    'r.yaml:10:16: admin.port: port 8000 is also listen.port; the two APIs need different ports',
  ]);
});

test('weights must be finite and not negative', () => {
  expect(
    problems(
      'router: { overlap_score_credit: .inf, prefill_load_scale: -1, host_cache_hit_weight: 1.1, seed: .nan }',
    ),
  ).toEqual([
    'router.yaml:1:33: router.overlap_score_credit: expected a number of at least 0, found Infinity',
    'router.yaml:1:59: router.prefill_load_scale: expected a number of at least 0, found -1',
    'router.yaml:1:86: router.host_cache_hit_weight: expected a number from 0 to 1, found 1.1',
    'router.yaml:1:97: router.seed: expected a whole number of at least 0, found NaN',
  ]);
});

test('trusted networks are addresses or prefixes', () => {
  expect(
    parseConfig('router: { trust_routing_fields_from: [10.0.0.0/8, "::1/128", 127.0.0.1] }', 'r', NOTHING)
      .config.router,
  ).toMatchObject({
    trustRoutingFieldsFrom: ['10.0.0.0/8', '::1/128', '127.0.0.1'],
  });
  expect(problems('router: { trust_incoming_hints_from: [10.0.0.0/33] }')).toEqual([
    'router.yaml:1:39: router.trust_incoming_hints_from[0]: expected a network such as 10.0.0.0/8, or an address, found "10.0.0.0/33"',
  ]);
});

test('the defaults are those of an empty file', () => {
  const { config, warnings: found } = defaultConfig();
  expect(found).toEqual([]);
  expect(config).toMatchObject({
    listen: { host: '127.0.0.1', port: 8000 },
    admin: { host: '127.0.0.1', port: 8001, token: null },
    auth: null,
    limits: {
      bodyBytes: 16 * 2 ** 20,
      headerBytes: 32 * 2 ** 10,
      promptTokens: 262_144,
      concurrentRequests: 2048,
      indexBytes: 512 * 2 ** 20,
      decisionBytes: 64 * 2 ** 20,
      overloadStatus: 429,
      drainMs: 30_000,
    },
    router: { mode: 'kv', hostCacheHitWeight: 0.75, diskCacheHitWeight: 0.25, routerTtlSeconds: 120 },
    observe: { candidates: 64, logLevel: 'info' },
  });
  expect([config.models.size, config.workers, config.workerSelection]).toEqual([0, [], {}]);
});

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'pointsman-config-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('a file is read with paths relative to its folder', () => {
  const path = join(folder, 'router.yaml');
  writeFileSync(path, '\uFEFFmodels: { m: { tokens: { tokenizer: ./tokenizer.json } } }\n');
  const loaded = loadConfig(path, NOTHING);
  expect(loaded.source.folder).toBe(folder);
  expect(loaded.config.models.get('m')?.tokens).toEqual({
    source: 'local',
    tokenizer: join(folder, 'tokenizer.json'),
    template: null,
  });
});

test('a missing file, a folder and bytes that are no text are unreadable', () => {
  const gone = join(folder, 'gone.yaml');
  const binary = join(folder, 'binary.yaml');
  writeFileSync(binary, Uint8Array.of(0x61, 0xff));
  const expected = [
    [gone, 'no such file'],
    [folder, 'it is a folder'],
    [binary, 'it is not UTF-8 text'],
  ] as const;
  for (const [path, reason] of expected) {
    const details = { file: path };
    const message = `cannot read the configuration file ${path}: ${reason}`;
    expect(() => loadConfig(path, NOTHING)).toThrow(
      new PointsmanError('PM_CONFIG_UNREADABLE', message, { details }),
    );
  }
});

test('only an error with problems is a ConfigError', () => {
  expect(new PointsmanError('PM_USAGE', 'x') instanceof ConfigError).toBe(false);
  expect(() => parseConfig('a: 1', 'r', NOTHING)).toThrow(PointsmanError);
});
