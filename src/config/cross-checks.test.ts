// What rests on several keys: secrets, clashes, keys without effect.
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { ConfigError } from './config-error.ts';
import { parseConfig } from './load.ts';
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

test('a worker without any model is told to add one', () => {
  expect(() => parseConfig('workers: [{ url: "http://127.0.0.1:1" }]', 'r.yaml')).toThrow(
    'r.yaml:1:11: workers[0].model: no model is configured; add one to models, for example models: { my-model: {} }',
  );
});

test('each key of a part that is not built yet gives one warning', () => {
  const found = warnings(
    [
      'request_classifier: { type: mine, isolation: thread, deadline: 1s }',
      'discovery: { nats: { url: x } }',
      'replicas: { enabled: true }',
      '',
      'containment: { soft_budget: 1ms, tripped: { classifier: refuse } }',
      'observe: { tracing: { otlp: http://127.0.0.1:4318 } }',
    ].join('\n'),
  );
  expect(found).toEqual([
    'router.yaml:2:14: discovery.nats: discovery through nats is not built yet; it has no effect in this version',
    'router.yaml:3:13: replicas.enabled: replicas are not built yet; it has no effect in this version',
    'router.yaml:6:23: observe.tracing.otlp: tracing is not built yet; it has no effect in this version',
  ]);
});

test('queue keys of router that say nothing, beside a profile or alone, give a warning', () => {
  const profile =
    'policy_classes: [{ name: a, quantum: 1, policy_family: f, cache_bucket: b }]\nuncached_isl_buckets: [{ min_tokens: 0, bucket: b }]\ndefault_policy_family: f\n';
  expect(warnings(profile)).toEqual([]);
  expect(warnings('router: { router_queue_threshold: 2, router_queue_policy: wspt }')).toEqual([]);
  expect(warnings('router: { router_queue_policy: wspt }')).toEqual([
    'router.yaml:1:11: router.router_queue_policy: has no effect without router.router_queue_threshold',
  ]);
  expect(warnings(`${profile}router: { router_queue_threshold: 2, router_queue_policy: wspt }`)).toEqual([
    'router.yaml:4:11: router.router_queue_threshold: has no effect, as every model has a queue profile',
    'router.yaml:4:38: router.router_queue_policy: has no effect, as every model has a queue profile',
  ]);
});

test('a tenant has 256 characters at most', () => {
  const text = (tenant: string) =>
    `auth: { api_keys: [{ name: a, sha256: { env: KEY }, tenant: ${tenant} }] }`;
  const env = { KEY: 'ab'.repeat(32) };
  expect(problems(text('x'.repeat(256)), 'router.yaml', { ...NOTHING, env })).toEqual([]);
  expect(problems(text('x'.repeat(257)), 'router.yaml', { ...NOTHING, env })).toEqual([
    'router.yaml:1:61: auth.api_keys[0].tenant: a tenant has at most 256 characters',
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

test('a secret that cannot be read says why in a few words', () => {
  const why = (code: string) =>
    problems('admin: { token: { file: x } }', 'router.yaml', {
      ...NOTHING,
      readFile() {
        throw Object.assign(new Error(`${code}: long text, open '/x'`), { code });
      },
    })[0]?.replace(/^.*cannot be read: /, '');
  expect(['ENOENT', 'EACCES', 'EPERM', 'EISDIR', 'ELOOP', 'EIO'].map(why)).toEqual([
    'no such file',
    'permission denied',
    'permission denied',
    'it is a folder',
    'its links lead in a circle',
    "EIO: long text, open '/x'",
  ]);
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

test('an event stream is connected to or listened for, one of the two', () => {
  const worker = (events: string): string =>
    `models: { a: {} }\nworkers:\n  - { url: http://127.0.0.1:1, kv_events: { 0: ${events} } }\n`;
  expect(problems(worker('{ bind: "tcp://0.0.0.0:5557", replay: "tcp://127.0.0.1:2" }'))).toEqual([]);
  expect(problems(worker('{ topic: kv }'))).toEqual([
    'router.yaml:3:48: workers[0].kv_events.0: needs the address of the stream: connect where the engine listens, bind where the engine connects to',
  ]);
  expect(problems(worker('{ connect: "tcp://127.0.0.1:1", bind: "tcp://0.0.0.0:5557" }'))).toEqual([
    'router.yaml:3:48: workers[0].kv_events.0: has both connect and bind; name the one of them that the engine is set up for',
  ]);
});

test('keys of a token source that another source reads are refused', () => {
  const text = [
    'models:',
    '  a: { tokens: { source: engine, render_as: vllm } }',
    '  b: { tokens: { source: estimate, timeout: 1s } }',
    '  c: { tokens: { tokenizer: t, concurrency: 2, render_as: sglang } }',
    '  d: { tokens: { timeout: 1s, concurrency: 2 } }',
  ].join('\n');
  expect(problems(text, 'r.yaml')).toEqual([
    'r.yaml:2:34: models.a.tokens.render_as: is read only with source: local, not source: engine',
    'r.yaml:3:36: models.b.tokens.timeout: is read only with source: engine, not source: estimate',
    'r.yaml:4:32: models.c.tokens.concurrency: is read only with source: engine, not source: local',
  ]);
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

test('names of adapters say which model they belong to, and the mode serves adapters', () => {
  const fleet = (mode: string, ...workers: readonly string[]): string =>
    [
      `router: { mode: ${mode} }`,
      'models: { small: { aliases: [s] }, big: {} }',
      'workers:',
      ...workers.map((worker, at) => `  - { url: "http://127.0.0.1:${at + 1}", ${worker} }`),
    ].join('\n');
  const law = 'model: small, adapters: [law]';
  for (const mode of ['kv', 'round-robin', 'random']) {
    expect(problems(fleet(mode, law, law, 'model: big, adapters: [code]'))).toEqual([]);
  }
  for (const mode of ['power-of-two', 'least-loaded', 'direct', 'device-aware-weighted']) {
    expect(problems(fleet(mode, 'model: small', law))).toEqual([
      `router.yaml:5:48: workers[1].adapters: adapters need router.mode kv, round-robin, random; it is ${mode}`,
    ]);
  }
  expect(problems(fleet('kv', law, 'model: big, adapters: [law, s, x, x]'))).toEqual([
    'router.yaml:5:57: workers[1].adapters[0]: "law" is an adapter of model "small" already; give this one another name',
    'router.yaml:5:62: workers[1].adapters[1]: "s" names a model already; give the adapter another name',
    'router.yaml:5:68: workers[1].adapters[3]: adapter "x" is given twice',
  ]);
});

test('an engine in this process has room for blocks in each sequence', () => {
  const worker = (more: string): string =>
    `models: { a: {}, b: { block_size: 512 } }\nworkers: [{ dialect: llamacpp-node, gguf: m.gguf, ${more} }]`;
  expect(problems(worker('model: a, context_tokens: 64, sequences: 2'))).toEqual([]);
  expect(problems(worker('model: a, context_tokens: 64, sequences: 3'))[0]).toBe(
    'router.yaml:2:77: workers[0].context_tokens: must be at least 96: 2 blocks for each of 3 sequences, or take fewer sequences',
  );
  expect(problems(worker('model: b, sequences: 17'))[0]).toContain(
    'workers[0].context_tokens: must be at least 17408: 2 blocks for each of 17 sequences',
  );
  expect(problems(worker('model: b, sequences: 16'))).toEqual([]);
});
