// The rules that hold the code to docs/architecture.md, each on a small tree that breaks it.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import { checkArchitecture, readArrows } from '../scripts/architecture-rules.mjs';

const TABLE = [
  '# Page',
  '| room | is for |',
  '|---|---|',
  '| other | a table that is not meant |',
  '',
  '| room | may import |',
  '| --- | --- |',
  '| kv, fleet | – |',
  '| road | kv, fleet (interfaces only) |',
  '| cli | everything |',
  '',
  'Text after it | with a bar |',
].join('\n');

let root = '';
afterEach(() => {
  if (root !== '') rmSync(root, { recursive: true, force: true });
});

/** Problems of a tree with these files. */
function problems(files: Readonly<Record<string, string>>): string[] {
  root = mkdtempSync(join(tmpdir(), 'pointsman-architecture-'));
  for (const [name, text] of Object.entries({ 'docs/architecture.md': TABLE, ...files })) {
    const path = join(root, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  return checkArchitecture(root).sort();
}

test('the table is read with several rooms in one row, remarks and everything', () => {
  expect(readArrows(TABLE)).toEqual(
    new Map([
      ['kv', new Set()],
      ['fleet', new Set()],
      ['road', new Set(['kv', 'fleet'])],
      ['cli', null],
    ]),
  );
  expect(() => readArrows('# nothing')).toThrow('docs/architecture.md has no table that starts with');
});

test('a tree that keeps the rules has no problems', () => {
  expect(
    problems({
      'src/index.ts': "export { walk } from './road/index.ts';\n",
      'src/plugin/index.ts': "export { a } from './a.ts';\n",
      'src/plugin/a.ts': '/** A number. */\nexport const a = 1;\n',
      'src/kv/index.ts': "import { a } from '../plugin/index.ts';\nexport const find = a;\n",
      'src/road/index.ts': "import { find } from '../kv/index.ts';\nexport const walk = find;\n",
      'src/road/walk.test.ts': "import { walk } from './index.ts';\nimport { find } from '../kv/index.ts';\n",
      'src/cli/main.ts': "export const load = () => import('../road/index.ts');\n",
      'src/kv/a.test.ts': "import { trial } from '../testing/index.ts';\n",
      'src/plugin/error-codes.ts': '//\n'.repeat(400),
      'bench/x.ts': "import '../src/kv/deep/inner.ts';\n",
      'tests/x.test.ts': "import '../src/road/index.ts';\nimport '../src/cli/run.ts';\n",
      'src/kv/table.generated.ts': 'x\n'.repeat(400),
      'src/kv/fixtures/utils/x.ts': "import '../../../road/inner.ts';\n",
    }),
  ).toEqual([]);
});

test('an arrow that is not in the table is refused, also as a type and as a dynamic import', () => {
  expect(
    problems({
      'src/kv/a.ts': "import type { X } from '../road/index.ts';\n",
      'src/kv/b.ts': "\nexport { y } from '../fleet/index.ts';\n",
      'src/fleet/c.ts': "export const load = () => import('../kv/index.ts');\n",
    }),
  ).toEqual([
    'src/fleet/c.ts:1: imports ../kv/index.ts: fleet may import plugin; the table is in docs/architecture.md',
    'src/kv/a.ts:1: imports ../road/index.ts: kv may import plugin; the table is in docs/architecture.md',
    'src/kv/b.ts:2: imports ../fleet/index.ts: kv may import plugin; the table is in docs/architecture.md',
  ]);
});

test('past the index of another room only benchmarks may reach', () => {
  expect(
    problems({
      'src/road/a.ts': "import '../kv/inner.ts';\n",
      'src/road/a.test.ts': "import '../kv/inner.ts';\n",
      'tests/b.test.ts': "import '../src/kv/inner.ts';\n",
    }),
  ).toEqual([
    'src/road/a.test.ts:1: imports ../kv/inner.ts: other rooms import only src/kv/index.ts',
    'src/road/a.ts:1: imports ../kv/inner.ts: other rooms import only src/kv/index.ts',
    'tests/b.test.ts:1: imports ../src/kv/inner.ts: other rooms import only src/kv/index.ts',
  ]);
});

test('the plugin contract imports no room and no package, and documents what it exports', () => {
  expect(
    problems({
      'src/plugin/a.ts':
        "import { join } from 'node:path';\nimport '../kv/index.ts';\nexport const b = join;\n/** C. */\nexport interface C {}\nexport type D = 1;\nconst e = 1;\n",
      'src/plugin/a.test.ts': "import { test } from 'vitest';\nexport const f = test;\n",
    }),
  ).toEqual([
    'src/plugin/a.ts:1: imports node:path: the plugin contract imports nothing, packages included',
    'src/plugin/a.ts:2: imports ../kv/index.ts: plugin may import nothing; the table is in docs/architecture.md',
    'src/plugin/a.ts:3: b is public and has no doc comment',
    'src/plugin/a.ts:6: D is public and has no doc comment',
  ]);
});

test('rooms that import each other in a circle are named once', () => {
  const table = '| room | may import |\n|---|---|\n| a | b |\n| b | c |\n| c | a |\n';
  expect(
    problems({
      'docs/architecture.md': table,
      'src/b/index.ts': "import '../c/index.ts';\n",
      'src/c/index.ts': "import '../a/index.ts';\n",
      'src/a/index.ts': "import '../b/index.ts';\n",
    }),
  ).toEqual(['src: rooms import each other in a circle: a -> b -> c -> a']);
});

test('large files, vague folders, files outside rooms, unknown rooms and star exports are refused', () => {
  expect(
    problems({
      'src/kv/large.ts': '//\n'.repeat(351),
      'src/kv/large.test.ts': '//\n'.repeat(501),
      'src/kv/helpers/x.ts': '\n',
      'src/stray.ts': '\n',
      'src/attic/index.ts': "\nexport * from './x.ts';\n",
    }),
  ).toEqual([
    'src/attic/index.ts:1: room attic is not in the arrow table of docs/architecture.md',
    'src/attic/index.ts:2: export * hides what a room offers; list the names',
    'src/kv/helpers: a folder named helpers says nothing; put things where their noun lives',
    'src/kv/large.test.ts:501: has 501 lines, at most 500; split it by responsibility',
    'src/kv/large.ts:351: has 351 lines, at most 350; split it by responsibility',
    'src/stray.ts:1: stands outside every room',
  ]);
});

test('the repository itself keeps the rules', () => {
  expect(checkArchitecture(fileURLToPath(new URL('..', import.meta.url)))).toEqual([]);
});
