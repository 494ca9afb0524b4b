// The grammar of worker_selection.
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
    '      - { type: mark, name: second, isolation: thread, deadline: 20ms }',
    '  prefill: { instance: sticky }',
    '  decode: round-robin',
    '  encode: { hints: [] }',
    '  instances: [{ name: sticky, type: kvcr }]',
  ].join('\n');
  const { config, warnings: found } = parseConfig(text, 'policy.yaml', NOTHING);
  expect(found).toEqual([]);
  expect(config.workerSelection.aggregated?.onCommitFailure).toBe('release');
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
          isolation: null,
          deadlineMs: null,
          path: [...hintPath, 0],
        },
        {
          type: 'mark',
          name: 'second',
          parameters: {},
          isolation: 'thread',
          deadlineMs: 20,
          path: [...hintPath, 1],
        },
      ],
      appendedHints: [],
      hintsPath: hintPath,
      path: ['worker_selection', 'aggregated'],
    },
    prefill: {
      policy: { kind: 'instance', name: 'sticky' },
      parameters: {},
      onCommitFailure: 'degrade',
      hints: null,
      appendedHints: [],
      hintsPath: null,
      path: ['worker_selection', 'prefill'],
    },
    decode: {
      policy: { kind: 'name', name: 'round-robin' },
      parameters: {},
      onCommitFailure: 'degrade',
      hints: null,
      appendedHints: [],
      hintsPath: null,
      path: ['worker_selection', 'decode'],
    },
    encode: {
      policy: { kind: 'name', name: 'default' },
      parameters: {},
      onCommitFailure: 'degrade',
      hints: [],
      appendedHints: [],
      hintsPath: ['worker_selection', 'encode', 'hints'],
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
        '  decode: { type: x, hints: [{ tipe: y }, z, 3] }',
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
    'policy.yaml:4:43: worker_selection.decode.hints[1]: expected a mapping (keys: type, name, parameters, isolation, deadline), found "z"; write - { type: z }',
    'policy.yaml:4:46: worker_selection.decode.hints[2]: expected a mapping (keys: type, name, parameters, isolation, deadline), found 3',
    'policy.yaml:5:25: worker_selection.encode.parameters: expected a mapping, found 3',
    'policy.yaml:6:14: worker_selection.instances: expected a list of instances, found a mapping',
  ]);
});

test('hints say where they run and how long they are waited for; worker selection says neither', () => {
  expect(
    problems(
      [
        'worker_selection:',
        '  aggregated: { type: x, hints: [{ type: y, isolation: threads, deadline: 50 }] }',
        '  prefill: { type: x, isolation: thread, deadline: 50ms }',
        '  instances: [{ name: a, type: x, isolation: in-process }]',
      ].join('\n'),
    ),
  ).toEqual([
    'router.yaml:2:56: worker_selection.aggregated.hints[0].isolation: expected one of in-process, thread, found "threads" (did you mean "thread"?)',
    'router.yaml:2:75: worker_selection.aggregated.hints[0].deadline: expected a duration such as 500ms, 30s or 2m, from 1ms to 1m, found 50',
    'router.yaml:3:23: worker_selection.prefill.isolation: worker selection cannot be isolated, as selecting and booking are one synchronous step; remove the key, hint policies and the request classifier take it',
    'router.yaml:3:42: worker_selection.prefill.deadline: worker selection has no deadline, as selecting and booking are one synchronous step; remove the key',
    'router.yaml:4:35: worker_selection.instances[0].isolation: worker selection cannot be isolated, as selecting and booking are one synchronous step; remove the key, hint policies and the request classifier take it',
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
