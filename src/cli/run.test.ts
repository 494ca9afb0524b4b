import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PointsmanError } from '../plugin/index.ts';
import { COMMANDS, type CommandEntry } from './commands.ts';
import type { CliIo } from './output.ts';
import { runCli } from './run.ts';

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

async function run(args: readonly string[], commands: readonly CommandEntry[] = COMMANDS): Promise<Ran> {
  let out = '';
  let err = '';
  const io: CliIo = {
    out: (text) => {
      out += text;
    },
    err: (text) => {
      err += text;
    },
    env: {},
    fancy: false,
    exit: () => {},
  };
  const code = await runCli(args, io, commands);
  return { code, out, err };
}

/** A command whose file must not be loaded. */
const UNTOUCHED: CommandEntry = {
  name: 'heavy',
  summary: 'does much',
  load: () => Promise.reject(new Error('loaded')),
};

const failing = (thrown: unknown): CommandEntry => ({
  name: 'fail',
  summary: 'fails',
  load: async () => ({
    register: (program) => {
      program.command('fail').action(() => {
        throw thrown;
      });
    },
  }),
});

test.each([[['--help']], [['-h']], [['help']]])(
  '%s lists every command without loading one',
  async (args) => {
    const { code, out, err } = await run(args, [UNTOUCHED]);
    expect([code, err]).toEqual([0, '']);
    expect(out).toContain('heavy');
    expect(out).toContain('does much');
  },
);

test('without a command the help goes to stderr and the exit code is 2', async () => {
  const { code, out, err } = await run([], [UNTOUCHED]);
  expect([code, out]).toEqual([2, '']);
  expect(err).toContain('Usage: pointsman');
});

test('every command has a summary, a help with examples, and --json', async () => {
  for (const { name, summary } of COMMANDS) {
    const { code, out } = await run([name, '--help']);
    expect([name, code]).toEqual([name, 0]);
    expect(out).toContain(summary);
    expect(out).toContain('Examples:\n  $ pointsman ');
    expect(out).toContain('--json');
    expect((await run(['help', name])).out).toBe(out);
  }
});

test('an unknown command names the nearest and exits 2', async () => {
  expect(await run(['chekc', 'x.yaml'])).toEqual({
    code: 2,
    out: '',
    err: 'error: unknown command "chekc" (did you mean "check"?) [PM_USAGE]\n',
  });
  expect((await run(['zebra'])).err).toBe(
    `error: unknown command "zebra"; known: ${COMMANDS.map(({ name }) => name).join(', ')} [PM_USAGE]\n`,
  );
});

test('an unknown option and a missing argument exit 2', async () => {
  const option = await run(['check', 'x.yaml', '--jsn']);
  const pointer = 'pointsman check --help lists arguments and options\n';
  expect([option.code, option.err]).toEqual([
    2,
    `error: unknown option '--jsn'\n(Did you mean --json?)\n${pointer}`,
  ]);
  expect(await run(['check'])).toEqual({
    code: 2,
    out: '',
    err: 'error: check needs a file: router.yaml, or --router-policy-config policy.yaml [PM_USAGE]\n',
  });
  expect((await run(['--zebra'])).code).toBe(2);
});

test('the version is that of the package', async () => {
  const { code, out } = await run(['--version']);
  expect(code).toBe(0);
  expect(out).toMatch(/^\d+\.\d+\.\d+\n$/);
});

test('mistakes of the user exit 2, a refusal of the world exits 1, and a defect shows its stack', async () => {
  const usage = await run(['fail'], [failing(new PointsmanError('PM_USAGE', 'no such thing'))]);
  expect(usage).toEqual({ code: 2, out: '', err: 'error: no such thing [PM_USAGE]\n' });
  expect((await run(['fail'], [failing(new PointsmanError('PM_PLUGIN_LOAD', 'x'))])).code).toBe(2);
  expect((await run(['fail'], [failing(new PointsmanError('PM_ADMIN_ANSWER', 'x'))])).code).toBe(1);
  const defect = await run(['fail'], [failing(new TypeError('oops'))]);
  expect(defect.code).toBe(1);
  expect(defect.err).toContain('internal error: TypeError: oops\n    at ');
});

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'pointsman-cli-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function file(name: string, lines: readonly string[]): string {
  const path = join(folder, name);
  writeFileSync(path, lines.join('\n'));
  return path;
}

test('check shows what each role resolves to and exits 0, warnings included', async () => {
  const path = file('good.yaml', ['worker_selection:', '  decode:', '    type: random', '    hints:']);
  const { code, out, err } = await run(['check', path]);
  expect(code).toBe(0);
  expect(err).toBe(
    [
      `warning: ${path}:4:5: worker_selection.decode.hints: has no value, which counts as absent; write hints: [] to run none`,
      '   4 |     hints:',
      '     |     ^',
      '',
    ].join('\n'),
  );
  expect(out.split('\n').map((line) => line.split(/ {2,}/))).toEqual([
    ['role', 'worker selection', 'KV path', 'hints'],
    ['aggregated', 'dynamo-default-cost-fn builtin', 'yes', 'none'],
    ['prefill', 'dynamo-default-cost-fn builtin', 'yes', 'none'],
    ['decode', 'random builtin', 'yes', 'none'],
    ['encode', 'dynamo-default-cost-fn builtin', 'yes', 'none'],
    [''],
    [
      'prepared for',
      'index',
      'KV events',
      'prompt chain',
      'copy locations',
      'lineage',
      'residency',
      'hint stage',
    ],
    ['aggregated', 'yes', 'yes', 'no', 'no', 'no', 'no', 'no'],
    ['prefill', 'yes', 'yes', 'no', 'no', 'no', 'no', 'no'],
    ['decode', 'no', 'no', 'no', 'no', 'no', 'no', 'no'],
    ['encode', 'yes', 'yes', 'no', 'no', 'no', 'no', 'no'],
    [''],
    [`${path}: no errors, 1 warning; router mode kv; no model queues`],
    [''],
  ]);
});

test('check shows the classes that requests of each model wait in, and settings of them that do nothing', async () => {
  const path = file('queues.yaml', [
    'models: { one: { served_as: a, tokens: { source: estimate } }, two: { served_as: b, tokens: { source: estimate } } }',
    'default_policy_family: usual',
    'uncached_isl_buckets: [{ min_tokens: 0, bucket: any }]',
    'policy_classes:',
    '  - { name: low, policy_family: usual, cache_bucket: any, quantum: 64, prefill_busy_threshold_frac: 2, request_queue_limit_per_worker: 8 }',
    '  - { name: open, quantum: 1, request_queue_limit_per_worker: 8 }',
  ]);
  const { out, err } = await run(['check', path]);
  const rows = out.split('\n').map((line) => line.split(/ {2,}/));
  const title = ['queue of', 'class', 'taken by', 'order', 'quantum', 'waits', 'limits per worker'];
  const at = rows.findIndex(([first]) => first === 'queue of');
  const busy = 'all workers above 2 × max_num_batched_tokens';
  expect(rows.slice(at, at + 5)).toEqual([
    title,
    ...['one', 'two'].flatMap((model) => [
      [model, 'low', 'family usual, bucket any', 'fcfs', '64', busy, '8 requests'],
      [model, 'open', 'its name', 'fcfs', '1', 'never', '8 requests'],
    ]),
  ]);
  const why = 'nobody waits in a class without prefill_busy_threshold or prefill_busy_threshold_frac';
  expect(err).toContain(
    `warning: ${path}:6:31: policy_classes[1].request_queue_limit_per_worker: has no effect, as ${why}\n`,
  );
  const alone = file('threshold.yaml', [
    'router: { router_queue_threshold: 0.5, router_queue_policy: wspt }',
  ]);
  const { queues } = JSON.parse((await run(['check', alone, '--json'])).out);
  expect(queues).toMatchObject([
    {
      model: '(any)',
      class: 'default',
      queue_policy: 'wspt',
      waits: 'all workers above 0.5 × max_num_batched_tokens',
    },
  ]);
});

test('check shows what is prepared for each role because its policies ask for it', async () => {
  file('lineage.mjs', [
    "import { defineHintPolicy } from 'pointsman/plugin';",
    "export default defineHintPolicy({ type: 'asks', inputs: ['session-lineage', 'residency'], create: () => ({ buildHints: () => [] }) });",
  ]);
  const lines = [
    'plugins: [./lineage.mjs]',
    'worker_selection:',
    '  aggregated: { type: kvcr }',
    '  prefill: { type: round-robin, hints: [{ type: asks }] }',
    '  decode: { type: round-robin, hints: [{ type: kv_fetch }] }',
    '  encode: { type: kvcr, hints: [], parameters: { shared_cache_multiplier: 0 } }',
  ];
  const prepared = async (path: string) => {
    const { out } = await run(['check', path, '--json']);
    const { roles, problems } = JSON.parse(out) as {
      roles: { role: string; prepared: Record<string, string> }[];
      problems: { text: string }[];
    };
    return {
      prepared: roles.map(({ role, prepared: given }) => `${role}: ${Object.values(given).join(' ')}`),
      problems: problems.map(({ text }) => text.replace(`${folder}/`, '')),
      keys: Object.keys(roles[0]?.prepared ?? {}),
    };
  };
  const found = await prepared(file('prepared.yaml', lines));
  expect(found.keys).toEqual([
    'index',
    'event_subscription',
    'chain_retention',
    'copy_locations',
    'lineage',
    'residency',
    'hint_stage',
  ]);
  expect(found.prepared).toEqual([
    'aggregated: yes yes yes yes no no yes',
    'prefill: yes yes no no yes yes yes',
    'decode: yes yes yes yes no no yes',
    'encode: yes yes no no no no no',
  ]);
  expect(found.problems).toEqual([]);
  const without = await prepared(file('blind.yaml', ['router: { use_kv_events: false }', ...lines]));
  expect(without.prepared).toEqual([
    'aggregated: yes disabled disabled disabled no no yes',
    'prefill: no no no no disabled disabled yes',
    'decode: yes disabled disabled disabled no no yes',
    'encode: yes disabled no no no no no',
  ]);
  const why =
    'count on KV copies, but router.use_kv_events: false leaves what workers hold to estimates, so no copy is credited or sent; set it to true, or choose policies without copies';
  expect(without.problems).toEqual([
    `blind.yaml:4:3: worker_selection.aggregated: the policies of role aggregated ${why}`,
    `blind.yaml:6:3: worker_selection.decode: the policies of role decode ${why}`,
    'blind.yaml:5:3: worker_selection.prefill: policies of role prefill declare session-lineage, residency, which router.use_kv_events: false switches off: they get null for it',
  ]);
  const lineage = await prepared(
    file('unkept.yaml', ['router: { enable_session_prefix_index: false, keyless_sessions: true }', ...lines]),
  );
  expect(lineage.problems).toEqual([
    'unkept.yaml:5:3: worker_selection.prefill: policies of role prefill declare session-lineage, which router.enable_session_prefix_index: false switches off: they get null for it',
  ]);
});

test('check says where selection counts on copies that nobody has made', async () => {
  const told = async (hints: string) => {
    const path = file('copies.yaml', [
      'worker_selection:',
      '  aggregated:',
      '    type: pointsman-expected-time',
      '    parameters: { peer_copies: true }',
      `    hints: [${hints}]`,
    ]);
    return (await run(['check', path])).err;
  };
  expect(await told('')).toContain(
    'copies.yaml:2:3: worker_selection.aggregated: worker selection of role aggregated counts on KV copies, but no hint policy of the role has any made; list kv_fetch in its hints, or choose a policy without copies',
  );
  expect(await told('{ type: kv_fetch, parameters: { only_if_faster: true } }')).toBe('');
});

test('check says where conversations cannot be told apart, as nobody hashes a prompt', async () => {
  const told = async (mode: string) => {
    const path = file('keyless.yaml', [`router: { mode: ${mode}, keyless_sessions: true }`]);
    return (await run(['check', path])).err;
  };
  const word = 'router.keyless_sessions: has no effect, as under router.mode';
  for (const mode of ['round-robin', 'least-loaded']) expect(await told(mode)).toContain(`${word} ${mode}`);
  expect(await told('kv')).toBe('');
});

test('check creates every policy and leaves nothing of it behind', async () => {
  const alive = new Set<string>();
  const key = 'pointsman check test';
  Reflect.set(globalThis, Symbol.for(key), alive);
  file('alive.mjs', [
    "import { defineHintPolicy } from 'pointsman/plugin';",
    `const alive = globalThis[Symbol.for('${key}')];`,
    "const make = (type, scope) => defineHintPolicy({ type, scope, create({ role = 'any', partition }) {",
    "  const name = [type, role, partition?.model].join(' ');",
    '  alive.add(name).add("once " + name);',
    '  return { buildHints: () => [], dispose: async () => void (await null, alive.delete(name)) };',
    '} });',
    "export const own = make('own', 'partition');",
    "export const shared = make('shared', 'shared');",
  ]);
  const path = file('alive.yaml', [
    'plugins: [./alive.mjs]',
    'models: { a: { tokens: { source: estimate } }, b: { tokens: { source: estimate } } }',
    'worker_selection: { decode: { hints: [{ type: own }, { type: shared }] } }',
  ]);
  expect((await run(['check', path])).code).toBe(0);
  Reflect.deleteProperty(globalThis, Symbol.for(key));
  expect([...alive].sort()).toEqual(['once own decode a', 'once own decode b', 'once shared any ']);
});

test('check prints problems of the file with position and excerpt and exits 2', async () => {
  const path = file('bad.yaml', ['router:', '  mode: kw']);
  expect(await run(['check', path])).toEqual({
    code: 2,
    out: '',
    err: [
      `${path}:2:9: router.mode: expected one of kv, round-robin, random, power-of-two, least-loaded, device-aware-weighted, direct, found "kw" (did you mean "kv"?)`,
      '   2 |   mode: kw',
      '     |         ^',
      '',
    ].join('\n'),
  });
});

test('check finds what only the plugin host can see, and writes it as JSON', async () => {
  const path = file('policy.yaml', ['worker_selection:', '  decode: { type: ruond-robin }']);
  const { code, out, err } = await run(['check', path, '--json']);
  expect([code, err]).toEqual([2, '']);
  const answer: unknown = JSON.parse(out);
  expect(answer).toMatchObject({
    file: path,
    ok: false,
    problems: [{ severity: 'error', path: 'worker_selection.decode.type', line: 2, column: 19 }],
  });
  expect(out).toContain('(did you mean \\"round-robin\\"?)');
});

test('check finds what a start would refuse of workers and tokenizers, all at once', async () => {
  const path = file('start.yaml', [
    'models: { tiny: { tokens: { tokenizer: none.json } } }',
    'workers:',
    '  - { url: "http://127.0.0.1:9001", capabilities: none }',
    '  - { url: "http://127.0.0.1:9002", dialect: sim, capabilities: { epoch: a } }',
    'worker_selection: { encode: random }',
  ]);
  const { code, out, err } = await run(['check', path, '--json']);
  expect([code, err]).toEqual([2, '']);
  const { problems } = JSON.parse(out) as { problems: { line: number; path: string; message: string }[] };
  expect(problems.map(({ line, path: at, message }) => `${line} ${at}: ${message}`).sort()).toEqual([
    `1 models.tiny.tokens: ${join(folder, 'none.json')} cannot be read: no such file`,
    '3 workers[0].dialect: dialect "auto" asks the engine what it is, and capabilities: none says not to ask; name the dialect: sim, vllm, sglang, trtllm, llamacpp',
    '4 workers[1].capabilities: the capability advertisement cannot be used: protocol_versions: Invalid input: expected array, received undefined',
    '5 worker_selection.encode: no worker has role encode, so this section decides nothing',
  ]);
});

test('plugins get the contract, the test kit and zod from the program', async () => {
  file('kit.ts', [
    "import { defineWorkerSelectionPolicy, pickWorker } from 'pointsman/plugin';",
    "import { testWorkerSelection } from 'pointsman/testing';",
    "import { z } from 'zod';",
    "const pick = { type: 'kit', parameters: z.strictObject({}), create: () => ({ picker: pickWorker({ pick: () => 0 }) }) };",
    'const policy = defineWorkerSelectionPolicy(pick);',
    'await testWorkerSelection(policy, { candidates: [{}] });',
    'export default policy;',
  ]);
  const path = file('kit.yaml', ['plugins: [./kit.ts]', 'worker_selection: { aggregated: kit }']);
  const { code, out, err } = await run(['check', path]);
  expect([code, err]).toEqual([0, '']);
  expect(out).toContain('kit ');
});

test('check finds workers that no start takes: a bad advertisement, a fleet that is too large', async () => {
  const path = file('start.yaml', [
    'models: { m: { tokens: { source: engine } }, n: { tokens: { source: estimate } } }',
    'workers:',
    '  - { id: 1, model: n, url: "http://127.0.0.1:1", dialect: sim, capabilities: { epoch: 5 } }',
    '  - { id: 2, model: n, url: "http://127.0.0.1:2", dialect: auto, capabilities: none }',
    ...Array.from(
      { length: 16 },
      (_, at) => `  - { model: n, url: "http://127.0.0.2:${at}", dialect: sim, ranks: { count: 4096 } }`,
    ),
  ]);
  const { code, out, err } = await run(['check', path]);
  expect([code, out]).toEqual([2, '']);
  const lines = err.split('\n').filter((line) => line.startsWith(path));
  expect(
    lines.map((line) =>
      line
        .slice(path.length + 1)
        .split(' ')
        .slice(0, 4)
        .join(' '),
    ),
  ).toEqual([
    '3:79: workers[0].capabilities: the capability',
    '4:60: workers[1].dialect: dialect "auto"',
    expect.stringMatching(/^20:5: workers\[17\]: worker \d+$/),
  ]);
});

test('check of a file that is not there exits 2', async () => {
  const path = join(folder, 'gone.yaml');
  expect(await run(['check', path])).toEqual({
    code: 2,
    out: '',
    err: `error: cannot read the configuration file ${path}: no such file [PM_CONFIG_UNREADABLE]\n`,
  });
});

test('check refuses what a start refuses, each at its place: dialects, advertisements, tokenizers', async () => {
  const path = file('start.yaml', [
    'models:',
    '  a: { tokens: { source: engine } }',
    '  b: { tokens: { source: local, tokenizer: ./none.json } }',
    '  c: {}',
    'workers:',
    '  - { id: 1, model: a, url: "http://127.0.0.1:9", dialect: auto, capabilities: none }',
    '  - { id: 2, model: a, url: "http://127.0.0.1:8", capabilities: none }',
    '  - { id: 3, model: a, url: "http://127.0.0.1:7", capabilities: { epoch: e } }',
    '  - { id: 4, model: a, url: "http://127.0.0.1:6" }',
    'worker_selection: { decode: { type: ruond-robin } }',
  ]);
  const { code, out, err } = await run(['check', path]);
  expect([code, out]).toEqual([2, '']);
  const lines = err.split('\n').filter((line) => line.startsWith(path));
  expect(lines.map((line) => line.slice(path.length))).toEqual([
    ':6:60: workers[0].dialect: dialect "auto" asks the engine what it is, and capabilities: none says not to ask; name the dialect: sim, vllm, sglang, trtllm, llamacpp',
    ':7:5: workers[1].dialect: dialect "auto" asks the engine what it is, and capabilities: none says not to ask; name the dialect: sim, vllm, sglang, trtllm, llamacpp',
    ':8:65: workers[2].capabilities: the capability advertisement cannot be used: protocol_versions: Invalid input: expected array, received undefined',
    `:3:16: models.b.tokens: ${join(folder, 'none.json')} cannot be read: no such file`,
    ':10:37: worker_selection.decode.type: unknown worker-selection policy "ruond-robin"; known: dynamo-default-cost-fn, kvcr, device-aware-weighted, dynamo-two-tier-cost-fn, round-robin, random, power-of-two, least-loaded, direct, pointsman-expected-time, pointsman-tuned-cost (did you mean "round-robin"?)',
  ]);
});

test('check reads a policy file beside a configuration or alone, and says which file a problem stands in', async () => {
  const main = file('main.yaml', ['router: { mode: least-loaded }']);
  const policy = file('rust.yaml', [
    'router: { serve_indexer: true }',
    'worker_selection: { decode: least-loaded }',
  ]);
  const beside = await run(['check', main, '--router-policy-config', policy]);
  expect([beside.code, beside.err.split('\n')[0]]).toEqual([
    0,
    `warning: ${policy}:1:11: router.serve_indexer: Pointsman has no use for this key; it has no effect`,
  ]);
  expect(beside.out).toContain('router mode least-loaded');
  const alone = await run(['check', '--router-policy-config', policy, '--json']);
  const { problems, roles } = JSON.parse(alone.out) as {
    problems: { file: string; line: number }[];
    roles: { role: string; policy: { type: string } }[];
  };
  expect([alone.code, problems.map(({ file: name, line }) => [name, line])]).toEqual([0, [[policy, 1]]]);
  expect(roles.find(({ role }) => role === 'decode')?.policy.type).toBe('least-loaded');
});
