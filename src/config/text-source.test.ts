import { expect, test } from 'vitest';
import { ConfigError } from './config-error.ts';
import { parseConfig } from './load.ts';
import { renderPath } from './text-source.ts';
import type { ConfigProblem, ConfigSource } from './types.ts';

const sourceOf = (text: string): ConfigSource =>
  parseConfig(text, 'policy.yaml', { env: {}, readFile: () => '' }).source;
const problem = (path: readonly (string | number)[], anchor: ConfigProblem['anchor']): ConfigProblem => {
  return { severity: 'error', code: 'PM_CONFIG_VALUE', path, anchor, message: 'is wrong' };
};

const POLICY = [
  'worker_selection:',
  '  decode:',
  '    type: dynamo-default-cost-fn',
  '    hints:',
  '      - type: kv_fetch',
  '        parameters: { list: [1, { name: 2 }] }',
].join('\n');

test('a problem found after parsing is placed at its value, its key, or the nearest parent', () => {
  const source = sourceOf(POLICY);
  const hint = ['worker_selection', 'decode', 'hints', 0];
  expect(source.render(problem([...hint, 'type'], 'value'))).toBe(
    'policy.yaml:5:15: worker_selection.decode.hints[0].type: is wrong',
  );
  expect(source.render(problem([...hint, 'parameters', 'list', 1, 'name'], 'key'))).toBe(
    'policy.yaml:6:35: worker_selection.decode.hints[0].parameters.list[1].name: is wrong',
  );
  expect(source.render(problem([...hint, 'parameters', 'max_blocks'], 'parent'))).toBe(
    'policy.yaml:6:9: worker_selection.decode.hints[0].parameters.max_blocks: is wrong',
  );
  expect(source.render(problem(['worker_selection', 'encode', 'type'], 'value'))).toBe(
    'policy.yaml:1:1: worker_selection.encode.type: is wrong',
  );
});

test('an excerpt shows the line with a caret below the column', () => {
  expect(
    sourceOf(POLICY).render(problem(['worker_selection', 'decode', 'type'], 'value'), { excerpt: true }),
  ).toBe(
    [
      'policy.yaml:3:11: worker_selection.decode.type: is wrong',
      '   3 |     type: dynamo-default-cost-fn',
      '     |           ^',
    ].join('\n'),
  );
});

test('a problem of an empty text has no place in it', () => {
  const source = sourceOf('');
  expect(source.render(problem(['router', 'mode'], 'value'), { excerpt: true })).toBe(
    'policy.yaml: router.mode: is wrong',
  );
});

test('the caret stands right below tabs, and Windows line ends do not show', () => {
  const source = sourceOf('router:\t{\tmode:\tkv }\r\n');
  expect(source.render(problem(['router', 'mode'], 'value'), { excerpt: true })).toBe(
    [
      'policy.yaml:1:17: router.mode: is wrong',
      '   1 | router:\t{\tmode:\tkv }',
      '     |        \t \t     \t^',
    ].join('\n'),
  );
});

test('of a long line only the surroundings of the caret are shown', () => {
  const source = sourceOf(`plugins: ["${'a'.repeat(500)}", x, "${'b'.repeat(500)}"]`);
  const lines = source.render(problem(['plugins', 1], 'value'), { excerpt: true }).split('\n');
  expect(lines[1]).toHaveLength(127);
  expect(lines[1]?.[lines[2]?.indexOf('^') ?? -1]).toBe('x');
});

test('the position of an alias is where the alias stands', () => {
  const source = sourceOf(
    'plugins: &p [./a.ts]\nrequest_classifier: { type: pass-through, parameters: { a: *p } }',
  );
  expect(source.render(problem(['request_classifier', 'parameters', 'a'], 'value'))).toBe(
    'policy.yaml:2:60: request_classifier.parameters.a: is wrong',
  );
});

test('path steps that are no plain words are quoted', () => {
  expect(renderPath(['models', 'a/b c', 'tokens', 0, 'x-y'])).toBe('models["a/b c"].tokens[0].x-y');
});

test('the error of a configuration carries the first problem and counts the others', () => {
  const source = sourceOf(POLICY);
  const error = new ConfigError(source, [problem(['plugins'], 'value'), problem([], 'value')]);
  expect(error.message).toBe('policy.yaml:1:1: plugins: is wrong (and 1 more)');
  expect(error.report()).toBe('policy.yaml:1:1: plugins: is wrong\npolicy.yaml:1:1: is wrong');
});
