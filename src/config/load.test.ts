import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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
    'router.yaml:2:17: router.mode: expected one of kv, round-robin, random, power-of-two, least-loaded, device-aware-weighted, direct, found "kw" (did you mean "kv"?)',
    'router.yaml:5:14: workers[0].model: no model is named "tinny" (did you mean "tiny"?)',
  ]);
});

test('a policy that is taken for a router mode is told where policies stand', () => {
  expect(problems('router: { mode: pointsman-expected-time }')).toEqual([
    expect.stringMatching(
      /^router\.yaml:1:17: router\.mode: .* found "pointsman-expected-time" \(a worker-selection policy stands under worker_selection\)$/,
    ),
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

test('weights must be finite and not negative', () => {
  expect(
    problems(
      'router: { overlap_score_credit: .inf, prefill_load_scale: -1, host_cache_hit_weight: 1.1, seed: .nan }',
    ),
  ).toEqual([
    'router.yaml:1:33: router.overlap_score_credit: expected a number from 0 to 1000000000, found Infinity',
    'router.yaml:1:59: router.prefill_load_scale: expected a number from 0 to 1000000000, found -1',
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

test.each([
  ['first_worker_wait: 30', 'expected a duration'],
  ['first_worker_wait: 2h', 'found "2h"'],
  ['first_worker_waiting: 0', 'found 0'],
  ['first_workers_wait: 1s', 'did you mean "first_worker_wait"?'],
])('limits: { %s } is refused', (key, message) => {
  expect(problems(`limits: { ${key} }`).join()).toContain(message);
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
      firstWorkerWaitMs: 0,
      firstWorkerWaiting: 1024,
      indexBytes: 512 * 2 ** 20,
      decisionBytes: 64 * 2 ** 20,
      overloadStatus: 429,
      drainMs: 30_000,
    },
    router: {
      mode: 'kv',
      hostCacheHitWeight: 0.75,
      diskCacheHitWeight: 0.25,
      routerTtlSeconds: 120,
      activeRequestExpirySeconds: 300,
      trackOutputBlocks: false,
      prefillLoadModel: 'none',
      sessionAffinity: { mode: 'off', ttlMs: 300_000, groupsSubagents: true, maxSessions: 65_536 },
      trustIncomingHintsFrom: [],
      trustRoutingFieldsFrom: [],
    },
    containment: {
      softBudgetMs: 1,
      watchdogMs: 10_000,
      breaker: { failures: 5, overruns: 50, windowMs: 30_000, skipMs: 10_000 },
      tripped: { workerSelection: 'default' },
    },
    observe: { candidates: 64, engineLoad: false, logLevel: 'info' },
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
    renderAs: null,
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

test.skipIf(!existsSync('/dev/zero'))('a device without an end is read to the limit and no further', () => {
  expect(() => loadConfig('/dev/zero', NOTHING)).toThrow(`it has more than ${MAX_CONFIG_BYTES} bytes`);
});

test('only an error with problems is a ConfigError', () => {
  expect(new PointsmanError('PM_USAGE', 'x') instanceof ConfigError).toBe(false);
  expect(() => parseConfig('a: 1', 'r', NOTHING)).toThrow(PointsmanError);
});
